package transport

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Entry is something in a directory of the guest. Nothing in it is to be
// trusted, except that Path leads to nowhere outside of the directory that was
// walked, if links are not followed. It need not be UTF-8.
type Entry struct {
	Path    string      // relative to what was walked, with slashes; "." is that itself
	Mode    fs.FileMode // type and permissions
	Size    int64       // bytes, of a regular file
	ModTime time.Time
	Link    string // where a symbolic link leads, as it is written in it
}

// Name is the last element of the path.
func (e Entry) Name() string { return path.Base(e.Path) }

// entryFields is how find is asked for an entry, of which each field ends with
// a NUL: type, permissions, size, time, link, path.
const (
	entryFormat = `%y\0%m\0%s\0%T@\0%l\0%P\0`
	fieldCount  = 6
	maxField    = 16 << 10 // bytes; paths end at 4 KiB on Linux
	entriesDone = "done"   // instead of a type; the exit status follows
)

var errNotWhole = errors.New("the list is not whole")

// readEntry reads one entry of a list. It is io.EOF after the last, and then
// status is the exit status of find.
func readEntry(r io.ByteReader) (e Entry, status int, err error) {
	kind, err := readField(r)
	if err != nil {
		return Entry{}, 0, err
	}
	if kind == entriesDone {
		text, err := readField(r)
		if err != nil {
			return Entry{}, 0, err
		}
		if status, err = strconv.Atoi(text); err != nil || status < 0 || status > 255 {
			return Entry{}, 0, fmt.Errorf("the list ends with the exit status %.40q", text)
		}
		if b, err := r.ReadByte(); err != io.EOF {
			return Entry{}, 0, fmt.Errorf("the byte %#x is behind the end of the list", b)
		}
		return Entry{}, status, io.EOF
	}
	fields := [fieldCount]string{kind}
	for i := 1; i < fieldCount; i++ {
		if fields[i], err = readField(r); err != nil {
			return Entry{}, 0, err
		}
	}
	e, err = parseEntry(fields)
	return e, 0, err
}

func readField(r io.ByteReader) (string, error) {
	var b []byte
	for {
		c, err := r.ReadByte()
		switch {
		case err == io.EOF:
			return "", errNotWhole
		case err != nil:
			return "", err
		case c == 0:
			return string(b), nil
		case len(b) == maxField:
			return "", fmt.Errorf("a field of the list has more than %d bytes", maxField)
		}
		b = append(b, c)
	}
}

var entryTypes = map[string]fs.FileMode{
	"f": 0, "d": fs.ModeDir, "l": fs.ModeSymlink, "p": fs.ModeNamedPipe, "s": fs.ModeSocket,
	"b": fs.ModeDevice, "c": fs.ModeDevice | fs.ModeCharDevice, "D": fs.ModeIrregular, "U": fs.ModeIrregular,
}

func parseEntry(f [fieldCount]string) (Entry, error) {
	mode, ok := entryTypes[f[0]]
	if !ok {
		return Entry{}, fmt.Errorf("a file of the type %.40q is listed", f[0])
	}
	bits, err := strconv.ParseUint(f[1], 8, 12)
	if err != nil {
		return Entry{}, fmt.Errorf("a file with the permissions %.40q is listed", f[1])
	}
	mode |= fs.FileMode(bits & 0o777)
	for bit, m := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= m
		}
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return Entry{}, fmt.Errorf("a file of the size %.40q is listed", f[2])
	}
	seconds, fraction, _ := strings.Cut(f[3], ".")
	sec, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Entry{}, fmt.Errorf("a file of the time %.40q is listed", f[3])
	}
	nsec, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64) // what is no fraction is none
	name := f[5]
	if name == "" {
		name = "."
	} else if err := checkEntry(name); err != nil {
		return Entry{}, err
	}
	return Entry{Path: name, Mode: mode, Size: size, ModTime: time.Unix(sec, max(0, nsec)), Link: f[4]}, nil
}

// checkEntry refuses a path that leads elsewhere, which no honest list has.
func checkEntry(name string) error {
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("the path %.200q is listed, which leads elsewhere", name)
		}
	}
	return nil
}

// depth of an entry: 0 is what was walked.
func (e Entry) depth() int {
	if e.Path == "." {
		return 0
	}
	return 1 + strings.Count(e.Path, "/")
}

// sortEntries puts directories before what is in them.
func sortEntries(list []Entry) {
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
}
