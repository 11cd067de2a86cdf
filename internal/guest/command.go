package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// mostSaid is how much of what a command says is kept.
const mostSaid = 1 << 10

// errLate is the cause of a command's end that took too long.
var errLate = errors.New("guest: the command took too long")

// runCommand runs a shell command of the operator's to its end, and kills it when
// ctx is done. It is part of the guest: it has the guest's own environment and
// is in its session, so that a quiesce leaves it alone.
func runCommand(ctx context.Context, text, dir string, environ []string) error {
	s := spec{command: "/bin/sh", args: []string{"-c", text}, dir: dir, env: environ}
	p, err := s.spawn(startBeside)
	if err != nil {
		return err
	}
	var said []byte
	var pumps sync.WaitGroup
	pumps.Go(func() { readPipe(p.stdout, func([]byte) {}) })
	pumps.Go(func() {
		readPipe(p.stderr, func(data []byte) { said = append(said, data[:min(len(data), mostSaid-len(said))]...) })
	})
	pumps.Go(p.wait)
	late := context.AfterFunc(ctx, p.group.kill)
	<-p.reaped
	inTime := late()
	go func() { pumps.Wait(); close(p.pumped) }()
	p.hangUpIfHeld() // by what it has left behind
	<-p.pumped
	p.hangUp()
	switch {
	case !inTime:
		return errLate
	case p.exit.code == 0:
		return nil
	}
	how := fmt.Sprintf("exited %d", p.exit.code)
	if p.exit.signal != "" {
		how = "was ended by " + p.exit.signal
	}
	if text := strings.TrimSpace(decodeText(said)); text != "" {
		how += ": " + text
	}
	return fmt.Errorf("command '%s' %s", s.command, how)
}
