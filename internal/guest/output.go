package guest

import (
	"errors"
	"os"
	"time"
)

// drainMost is how much of an output is read after its program has ended: more
// than the kernel holds, so that all of the program's output is there, and not
// for ever, if another process goes on writing.
const drainMost = 1 << 20

// readPipe hands out what comes from an output until its end: nobody has the
// other side any more, or it is cut off and all that was in it has been read.
func readPipe(from *os.File, take func([]byte)) {
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			take(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	from.SetReadDeadline(time.Time{})
	for most := drainMost; most > 0; {
		n := readReady(from, buf)
		if n <= 0 {
			return
		}
		take(buf[:n])
		most -= n
	}
}

// cutOff has readPipe end with what is there.
func cutOff(output *os.File) {
	if err := output.SetReadDeadline(time.Now()); err != nil {
		output.Close() // no such thing here
	}
}
