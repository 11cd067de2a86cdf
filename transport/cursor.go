package transport

import (
	"fmt"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// A Gap is output that the guest kept no longer when it was asked for: Dropped
// bytes from the offset From on.
type Gap struct {
	From    int64
	Dropped int64
}

// A cursor is a place in output that the guest keeps, in bytes. Only the
// guest's own numbers move it: the text on the wire is of another length. It
// holds the guest to their being without holes, save those that it tells.
type cursor struct {
	at   int64
	gaps bool // there was one
}

// begin takes the offset from which the guest goes on, and how much it says
// that leaves out.
func (c *cursor) begin(from, dropped int64) (*Gap, error) {
	if from < c.at || from-c.at != dropped {
		return nil, fmt.Errorf("the output goes on at %d with %d bytes dropped, and was asked for from %d", from, dropped, c.at)
	}
	if dropped == 0 {
		return nil, nil
	}
	gap := &Gap{From: c.at, Dropped: dropped}
	c.at, c.gaps = from, true
	return gap, nil
}

// maxGrowth is how many bytes of text can come of one byte: those of U+FFFD.
const maxGrowth = 3

// move takes a piece of output.
func (c *cursor) move(offset, next int64, text string) error {
	switch n := next - offset; {
	case offset != c.at:
		return fmt.Errorf("output from %d came where that from %d was due", offset, c.at)
	case int64(len(text)) > maxGrowth*n:
		return fmt.Errorf("%d bytes of text are said to be %d bytes of output", len(text), n)
	}
	c.at = next
	return nil
}

// end takes where the output ends.
func (c *cursor) end(next int64) error {
	if next != c.at {
		return fmt.Errorf("the output ends at %d and came up to %d", next, c.at)
	}
	return nil
}

// finalReason reports whether a guest that refuses to attach with the text will
// do so for good.
func finalReason(text string) bool {
	switch wire.Code(text) {
	case wire.CodeUnknownExecution, wire.CodeNotRetained, wire.CodeInvalidOffset, wire.CodeInvalidExecutionID, wire.CodeRetiring, wire.CodeUnknownOp:
		return true
	}
	return false
}
