package k8s

import (
	"fmt"
	"os"
)

// maxFile bounds every file that is read: a bundle of all public CAs has a
// quarter of a megabyte.
const maxFile = 4 << 20

// readFile reads a small file whole. Files that may change are read again on
// each use rather than when their times differ: two writes within one tick of
// the file system's clock leave the same time, and the files are tiny.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := readLimited(f, maxFile)
	if err == errOverLimit {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return b, err
}
