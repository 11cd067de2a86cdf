package guest

import (
	"fmt"
	"sync"

	"github.com/sandlot-go/sandlot/transport/wire"
)

const (
	codeNoTerminalOptions refusal = wire.CodeNoTerminalOptions

	defaultShell    = "/bin/sh"
	defaultTerminal = "TERM=xterm-256color"
)

// A terminalOrder is a terminal request that has been checked.
type terminalOrder struct {
	cols, rows int
	spec       spec
}

// size is a field that holds columns or rows.
func (c *call) size(name string) (int, error) {
	n := c.number(name, 0)
	if !safeInteger(n) || n < 1 || n > wire.MaxTerminalCells {
		return 0, refusal(fmt.Sprintf("%s must be an integer in [1, %d]", name, wire.MaxTerminalCells))
	}
	return int(n), nil
}

// terminalOrder checks a terminal request.
func (c *call) terminalOrder() (*terminalOrder, error) {
	if c.body == nil {
		return nil, codeNoTerminalOptions
	}
	o := &terminalOrder{}
	var err error
	if o.cols, err = c.size("cols"); err != nil {
		return nil, err
	}
	if o.rows, err = c.size("rows"); err != nil {
		return nil, err
	}
	if o.spec.dir, err = c.server.jail.workdir(c.body["cwd"]); err != nil {
		return nil, err
	}
	if o.spec.command, _ = c.body["command"].(string); o.spec.command == "" {
		o.spec.command = defaultShell
	}
	o.spec.args = texts(c.body["args"])
	o.spec.env = overlay(overlay(c.server.environ, []string{defaultTerminal}), environment(c.body["env"]))
	return o, nil
}

// terminal answers terminal: a program on a terminal that lives as long as the
// connection does, or in a session.
func (s *Server) terminal(c *call) {
	o, err := c.terminalOrder()
	if err == nil {
		err = s.jail.makeWorkdir(o.spec.dir)
	}
	if err != nil {
		c.fail(err)
		return
	}
	if c.body["persistent"] == true {
		s.openSession(c, o)
		return
	}
	j, err := s.open(o)
	if err != nil {
		c.fail(err)
		return
	}
	defer j.terminal.Close()
	// The program does not outlive the connection, however that ends.
	defer whenDone(c.ctx, func() {
		j.group.killSession("SIGKILL", "")
		j.terminal.Close()
	})()
	in := newInput(j.terminal)
	var writer sync.WaitGroup
	writer.Go(in.run)
	defer func() {
		in.end()
		j.terminal.Close()
		writer.Wait()
	}()
	beat := c.heartbeat()
	c.send(&wire.Ready{Type: wire.TypeReady, BootID: s.bootID, HeartbeatMs: beat})
	stop := c.conn.beat(beat)
	defer stop()
	c.listen(func(payload []byte) { j.hear(payload, in) })
	j.readTerminal(func(data []byte) {
		if c.send(&wire.Data{Type: wire.TypeData, Data: decodeText(data)}) != nil {
			c.conn.destroy()
		}
	})
	<-j.reaped
	in.end()
	j.group.killSession("SIGKILL", "") // what the program has left behind
	stop()
	if c.ctx.Err() == nil {
		c.send(&wire.Exit{Type: wire.TypeExit, ExitCode: j.exit.code, Signal: j.exit.number})
		c.conn.finish()
	}
}

// open starts a program on a terminal of its own.
func (s *Server) open(o *terminalOrder) (*job, error) {
	master, slave, err := openPTY(o.cols, o.rows)
	if err != nil {
		return nil, osError(err, "open", "/dev/ptmx")
	}
	o.spec.dir = s.jail.workspace.reach(o.spec.dir)
	j, err := s.jobs.start(o.spec, master, slave)
	slave.Close()
	if err != nil {
		master.Close()
		return nil, err
	}
	return j, nil
}

// hear follows a frame of a peer that is attached to the job's terminal, which
// may be nil.
func (j *job) hear(payload []byte, in *input) {
	frame, ok := wire.ParseHostFrame(payload)
	if !ok {
		return
	}
	switch frame.Type {
	case wire.TypeInput:
		in.put(frame.Data)
	case wire.TypeResize:
		setSize(j.terminal, frame.Cols, frame.Rows)
	case wire.TypeKill:
		if !closed(j.reaped)() {
			j.group.killSession(frame.Signal, "SIGTERM")
		}
	}
}
