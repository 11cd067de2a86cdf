//go:build !unix

package guest

import "os"

// writeOnce writes data at offset.
func writeOnce(f *os.File, data []byte, offset int64) (int, error) { return f.WriteAt(data, offset) }
