package guest

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// osCodes are the errors of system calls with the names and words under which
// hosts know them from the reference guest, which has them from libuv.
var osCodes = []struct {
	errno      syscall.Errno
	code, text string
}{
	{syscall.ENOENT, "ENOENT", "no such file or directory"},
	{syscall.EACCES, "EACCES", "permission denied"},
	{syscall.EEXIST, "EEXIST", "file already exists"},
	{syscall.EISDIR, "EISDIR", "illegal operation on a directory"},
	{syscall.ENOTDIR, "ENOTDIR", "not a directory"},
	{syscall.ELOOP, "ELOOP", "too many symbolic links encountered"},
	{syscall.ENAMETOOLONG, "ENAMETOOLONG", "name too long"},
	{syscall.ENOSPC, "ENOSPC", "no space left on device"},
	{syscall.EDQUOT, "EDQUOT", "disk quota exceeded"},
	{syscall.EFBIG, "EFBIG", "file too large"},
	{syscall.EROFS, "EROFS", "read-only file system"},
	{syscall.EPERM, "EPERM", "operation not permitted"},
	{syscall.EBUSY, "EBUSY", "resource busy or locked"},
	{syscall.EXDEV, "EXDEV", "cross-device link not permitted"},
	{syscall.ENOTEMPTY, "ENOTEMPTY", "directory not empty"},
	{syscall.ETXTBSY, "ETXTBSY", "text file is busy"},
	{syscall.EMFILE, "EMFILE", "too many open files"},
	{syscall.ENFILE, "ENFILE", "file table overflow"},
	{syscall.ENOMEM, "ENOMEM", "not enough memory"},
	{syscall.EAGAIN, "EAGAIN", "resource temporarily unavailable"},
	{syscall.E2BIG, "E2BIG", "argument list too long"},
	{syscall.ENOEXEC, "ENOEXEC", "exec format error"},
	{syscall.EIO, "EIO", "i/o error"},
	{syscall.ENXIO, "ENXIO", "no such device or address"},
	{syscall.ENODEV, "ENODEV", "no such device"},
	{syscall.EINVAL, "EINVAL", "invalid argument"},
	{syscall.ECONNREFUSED, "ECONNREFUSED", "connection refused"},
	{syscall.ECONNRESET, "ECONNRESET", "connection reset by peer"},
	{syscall.EPIPE, "EPIPE", "broken pipe"},
	{syscall.ETIMEDOUT, "ETIMEDOUT", "connection timed out"},
	{syscall.EADDRNOTAVAIL, "EADDRNOTAVAIL", "address not available"},
	{syscall.EOVERFLOW, "EOVERFLOW", "value too large for defined data type"},
}

// osCode is the name of the system call error in err, such as "ENOENT", and ""
// if there is none that is known.
func osCode(err error) (code, text string) {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch { // what platforms with numbers of their own can still say
	case errors.Is(err, fs.ErrNotExist):
		errno = syscall.ENOENT
	case errors.Is(err, fs.ErrExist) && errno != syscall.ENOTEMPTY:
		errno = syscall.EEXIST
	case !ok:
		return "", ""
	}
	for _, c := range osCodes {
		if errno == c.errno {
			return c.code, c.text
		}
	}
	return "", ""
}

// osError words the failure of a system call on paths as the reference guest
// does: "ENOENT: no such file or directory, open '/x'". The zero to two paths
// are those that the peer knows, not those of the call.
func osError(err error, call string, paths ...string) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[refusal](err); ok {
		return r
	}
	code, text := osCode(err)
	if code == "" {
		// Only the innermost error: the outer ones name paths that are
		// relative to a folder the peer does not know.
		for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
			err = inner
		}
		code, text = "EIO", err.Error()
	}
	words := code + ": " + text + ", " + call
	if len(paths) > 0 {
		words += " '" + strings.Join(paths, "' -> '") + "'"
	}
	return refusal(words)
}
