//go:build !linux

package guest

import "os"

func openPTY(cols, rows int) (master, slave *os.File, err error) { return nil, nil, errNoTerminals }

func setSize(master *os.File, cols, rows int) error { return errNoTerminals }
