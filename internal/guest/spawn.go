package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A starter starts a process in a session of its own.
type starter func(path string, argv []string, attr *os.ProcAttr) (*os.Process, error)

// A spec says what to run.
type spec struct {
	command string // looked up in the PATH of env unless it has a slash
	args    []string
	dir     string
	env     []string
	stdin   *string // nil: the null device
}

const (
	defaultPath = "/bin:/usr/bin" // of execvp, when there is no PATH
	busyTries   = 200             // times longNap
)

// check refuses strings that no system call can take.
func (p *spec) check() error {
	if strings.ContainsRune(p.command, 0) {
		return nullByte("argument", "file", "string", p.command)
	}
	for i, arg := range p.args {
		if strings.ContainsRune(arg, 0) {
			return nullByte("argument", "args["+strconv.Itoa(i)+"]", "string", arg)
		}
	}
	for _, entry := range p.env {
		if name, value, _ := strings.Cut(entry, "="); strings.ContainsRune(entry, 0) {
			return nullByte("property", "options.env['"+name+"']", "string", value)
		}
	}
	return nil
}

// spawn starts the program. Its streams are files, so that the process has the
// pipe itself and not a copy that this process must feed.
func (p *spec) spawn(start starter) (*program, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	run := &program{reaped: make(chan struct{}), pumped: make(chan struct{})}
	var theirs []*os.File
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	fail := func(err error) (*program, error) {
		closeAll(theirs...)
		closeAll(run.stdin, run.stdout, run.stderr)
		return nil, err
	}
	var in *os.File
	var err error
	if p.stdin != nil {
		in, run.stdin, err = os.Pipe()
	} else {
		in, err = os.Open(os.DevNull)
	}
	if err != nil {
		return fail(spawnError(p.command, err))
	}
	theirs = append(theirs, in)
	for _, ours := range []**os.File{&run.stdout, &run.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(spawnError(p.command, err))
		}
		*ours = r
		theirs = append(theirs, w)
	}
	process, err := p.start(start, &os.ProcAttr{Dir: p.dir, Env: p.env, Files: theirs})
	if err != nil {
		return fail(spawnError(p.command, err))
	}
	closeAll(theirs...)
	run.process, run.group = process, group(process.Pid)
	return run, nil
}

// spawnOn starts the program on a terminal, which becomes that of its session.
func (p *spec) spawnOn(start starter, slave *os.File) (*program, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	run := &program{reaped: make(chan struct{})}
	process, err := p.start(start, &os.ProcAttr{
		Dir: p.dir, Env: p.env, Files: []*os.File{slave, slave, slave}, Sys: onTerminal(),
	})
	if err != nil {
		return nil, spawnError(p.command, err)
	}
	run.process, run.group = process, group(process.Pid)
	return run, nil
}

// start finds the program's file and starts it as execvp does: what the kernel
// takes for no program is given to the shell.
func (p *spec) start(start starter, attr *os.ProcAttr) (*os.Process, error) {
	path, err := lookPath(p.command, p.dir, p.env)
	if err != nil {
		return nil, err
	}
	argv := append([]string{p.command}, p.args...)
	for try := 0; ; try++ {
		process, err := startChild(func() (*os.Process, error) { return start(path, argv, attr) })
		switch {
		case errors.Is(err, syscall.ETXTBSY) && try < busyTries:
			// A process that is being started at this moment still has the
			// file open, which was written a moment ago.
			nap(longNap)
		case errors.Is(err, syscall.ENOEXEC) && path != "/bin/sh":
			path, argv = "/bin/sh", append([]string{"sh", path}, p.args...)
		default:
			return process, err
		}
	}
}

// lookPath finds a command as execvp does in the program's own environment and
// working directory.
func lookPath(command, dir string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		return command, nil
	}
	list, ok := lookup(env, "PATH")
	if !ok {
		list = defaultPath
	}
	var denied error = syscall.ENOENT
	for _, folder := range filepath.SplitList(list) {
		path := filepath.Join(folder, command)
		seen := path
		if !filepath.IsAbs(path) {
			path, seen = "./"+path, filepath.Join(dir, path) // the program starts in dir
		}
		info, err := os.Stat(seen)
		switch {
		case err != nil:
			if errors.Is(err, syscall.EACCES) {
				denied = syscall.EACCES
			}
		case info.IsDir() || !executable(seen):
			denied = syscall.EACCES
		default:
			return path, nil
		}
	}
	return "", denied
}

// spawnError words a failed start as the reference guest does.
func spawnError(command string, err error) error {
	if _, ok := errors.AsType[refusal](err); ok || errors.Is(err, errUnsupported) {
		return err
	}
	code, _ := osCode(err)
	switch code {
	case "ENOENT", "EACCES", "EAGAIN", "EMFILE", "ENFILE":
		return refusal("spawn " + excerpt(command) + " " + code)
	case "":
		return refusal("spawn EIO: " + err.Error())
	}
	return refusal("spawn " + code)
}
