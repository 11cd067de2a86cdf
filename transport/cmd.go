package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	defaultTimeout   = 5 * time.Minute // the guest's own
	defaultMaxOutput = 100 << 20       // the guest's own, per stream
)

// A Cmd is a program to be run in the guest, and then the program. It is used
// like an exec.Cmd: fill in the fields, Run it, or Start and Wait for it. It
// cannot be reused.
type Cmd struct {
	// Path is the program. The guest looks it up in its PATH if it has no
	// slash; there is no shell.
	Path string

	// Args are the arguments, of which Args[0] is not sent: a guest's program
	// gets Path for it.
	Args []string

	// Dir is the working directory, inside the workspace and relative to its
	// root. The guest creates it if it is missing. Empty: the root.
	Dir string

	// Env is laid over the guest's environment, "key=value" each, the last of
	// equal keys counts.
	Env []string

	// Stdin is read to its end before the program starts, up to the Config's
	// MaxFileBytes; nil is the null device. Unless the guest announces that it
	// takes input safely, the input is put into a file and the program is
	// started by the guest's /bin/sh with that as its input: then a program
	// that cannot be executed is an exit status of 126 or 127 and no
	// *StartError.
	Stdin io.Reader

	// Stdout and Stderr get the output as text: what is no UTF-8 comes as
	// U+FFFD. They can be equal. They are written by one goroutine at a time,
	// which a slow one holds up; Wait waits for it. A writer that fails ends
	// the program. Nil: the null device.
	Stdout, Stderr io.Writer

	// Timeout is how long the program may run before the guest ends it. Zero is
	// the guest's default of 5 minutes; it refuses more than 30.
	Timeout time.Duration

	// MaxOutput is how many bytes of each stream the guest sends before it
	// drops the rest. Zero is the guest's default of 100 MiB.
	MaxOutput int64

	// ID names the program in the guest when its output is kept; see Retain.
	// Empty: Start chooses one.
	ID string

	// OnGap is told, before what follows it is written, of output that was lost
	// because the guest keeps only the last of it; see Retain. Nil: nobody is,
	// and the Result says that the output was truncated.
	OnGap func(Gap)

	// Err, if not nil, is why the program cannot be run; Start returns it.
	Err error

	ctx     context.Context
	agent   *Agent
	started bool
	waited  bool
	run     *execution // nil unless Start succeeded
	stderr  *excerpt   // for ExitError; nil unless Output collects it

	// launch is instead of Agent.launch when the output is kept.
	launch func(context.Context, *binding, *Cmd, wire.ExecuteBody) (*execution, error)
}

// Command returns a Cmd to run the program in the guest. The end of ctx ends
// the program; see Cmd.Wait.
func (a *Agent) Command(ctx context.Context, name string, args ...string) *Cmd {
	if ctx == nil {
		panic("transport: nil Context")
	}
	return &Cmd{Path: name, Args: append([]string{name}, args...), ctx: ctx, agent: a}
}

// Start has the program started. That it succeeds means that the guest was
// asked; a program that could not be started is reported by Wait. When ctx has
// ended nothing is sent and its cause is returned.
func (c *Cmd) Start() error {
	if c.agent == nil {
		return errors.New("transport: the Cmd is not from Agent.Command")
	}
	if c.started {
		return errors.New("transport: the Cmd was started before")
	}
	c.started = true
	if c.Err != nil {
		return c.Err
	}
	ctx, end, err := c.agent.begin(c.ctx)
	if err != nil {
		return err
	}
	x, err := c.agent.start(ctx, c)
	if err != nil {
		err = callerFirst(ctx, err)
		end()
		return err
	}
	c.run = x
	c.agent.count(1)
	go func() {
		defer close(x.done)
		defer end()
		defer c.agent.count(-1)
		x.supervise(ctx)
	}()
	return nil
}

// Wait waits until the program has ended, nobody holds its output any more, and
// all of it is delivered; what the program has left in the background holds it
// as well, unless it was redirected. The error is nil if the program exited 0,
// an *ExitError if it ended otherwise, and a *StartError, *UnauthorizedError or
// *RetiringError if it did not start.
//
// If the context ended before the program did, the program was ended. Then the
// error wraps the context's cause: it is a *StoppedError when the end and all
// output are known, a *LostError with Confirmed when only the end is, and a
// *CancelError when not even that. The latter two are also what comes of a
// broken connection, after which the program is ended as well.
func (c *Cmd) Wait() error {
	switch {
	case c.run == nil:
		return errors.New("transport: the Cmd is not started")
	case c.waited:
		return errors.New("transport: Wait was called before")
	}
	c.waited = true
	<-c.run.done
	if exit, ok := errors.AsType[*ExitError](c.run.err); ok && c.stderr != nil {
		exit.Stderr = c.stderr.bytes()
	}
	return c.run.err
}

// Run is Start and Wait.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is Run and returns what the program wrote to its standard output, also
// when it failed. An *ExitError carries an excerpt of standard error unless
// Stderr is set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("transport: Stdout is set already")
	}
	var b bytes.Buffer
	c.Stdout = &b
	if c.Stderr == nil {
		c.stderr = &excerpt{}
		c.Stderr = c.stderr
	}
	err := c.Run()
	return b.Bytes(), err
}

// CombinedOutput is Run and returns what the program wrote to either stream, in
// the order in which the guest read it.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("transport: Stdout or Stderr is set already")
	}
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	return b.Bytes(), err
}

// Result is what the guest said about the program's end. It is nil before Wait
// has returned, and when that was never heard. It says nothing about whether
// all output was delivered; the error of Wait does.
func (c *Cmd) Result() *Result {
	if !c.waited || c.run == nil {
		return nil
	}
	return c.run.result
}

// body is the request to execute the program, without its id. What the wire
// would change on its way is refused: it carries text.
func (c *Cmd) body() (wire.ExecuteBody, error) {
	fail := func(format string, args ...any) (wire.ExecuteBody, error) {
		return wire.ExecuteBody{}, &StartError{Name: c.name(), Err: fmt.Errorf(format, args...)}
	}
	switch {
	case c.Path == "":
		return fail("no program is named")
	case c.Timeout < 0:
		return fail("the timeout is %v", c.Timeout)
	case c.MaxOutput < 0:
		return fail("MaxOutput is %d", c.MaxOutput)
	}
	args := []string{}
	if len(c.Args) > 1 {
		args = c.Args[1:]
	}
	env, err := environment(c.Env)
	if err != nil {
		return wire.ExecuteBody{}, &StartError{Name: c.name(), Err: err}
	}
	for _, text := range append([]string{c.Path, c.Dir}, args...) {
		if !utf8.ValidString(text) {
			return fail("%q is not valid UTF-8 and cannot be sent", text)
		}
	}
	return wire.ExecuteBody{
		Command: c.Path, Args: args, Cwd: c.Dir, Env: env,
		TimeoutMs: int64((c.Timeout + time.Millisecond - 1) / time.Millisecond), MaxOutput: c.MaxOutput,
	}, nil
}

func environment(list []string) (map[string]string, error) {
	var env map[string]string
	for _, kv := range list {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("an element of Env is not key=value")
		}
		if !utf8.ValidString(kv) {
			return nil, fmt.Errorf("the value of %q in Env is not valid UTF-8 and cannot be sent", key)
		}
		if env == nil {
			env = make(map[string]string, len(list))
		}
		env[key] = value
	}
	return env, nil
}

func (c *Cmd) name() string { return c.Path[strings.LastIndexByte(c.Path, '/')+1:] }

func (c *Cmd) timeout() time.Duration {
	if c.Timeout == 0 {
		return defaultTimeout
	}
	return c.Timeout
}

// maxText is how much text of one stream can come of what the guest may send:
// each byte that is no UTF-8 takes three as U+FFFD.
func (c *Cmd) maxText() int64 {
	most := c.MaxOutput
	if most == 0 {
		most = defaultMaxOutput
	}
	if most > math.MaxInt64/3 {
		return math.MaxInt64
	}
	return 3 * most
}

// An excerpt keeps the beginning and the end of what is written to it.
type excerpt struct {
	head, tail []byte
	skipped    int64
}

const excerptHalf = 32 << 10

func (e *excerpt) Write(p []byte) (int, error) {
	n := len(p)
	take := min(len(p), excerptHalf-len(e.head))
	e.head = append(e.head, p[:take]...)
	e.tail = append(e.tail, p[take:]...)
	if over := len(e.tail) - excerptHalf; over > 0 {
		e.skipped += int64(over)
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	return n, nil
}

func (e *excerpt) bytes() []byte {
	if e.skipped == 0 {
		return append(e.head, e.tail...)
	}
	return fmt.Appendf(e.head, "\n... omitting %d bytes ...\n%s", e.skipped, e.tail)
}
