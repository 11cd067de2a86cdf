//go:build !linux

package guest

import (
	"errors"
	"os"
)

// errNoTerminals reports a platform on which there are no terminals.
var errNoTerminals = errors.New("guest: there are no terminals on this platform")

func openPTY(cols, rows int) (master, slave *os.File, err error) { return nil, nil, errNoTerminals }

func setSize(master *os.File, cols, rows int) error { return errNoTerminals }
