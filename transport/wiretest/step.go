package wiretest

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sandlot-go/sandlot/transport/wire"
)

func step(run func(*player) error, format string, args ...any) Step {
	return Step{name: fmt.Sprintf(format, args...), run: run}
}

// Patience is how long each of the steps that follow waits for the other side.
// Without it that is ten minutes.
func Patience(d time.Duration) Step {
	return step(func(p *player) error { p.patience = d; return nil }, "Patience(%v)", d)
}

// Accept waits for the next connection, which the steps that follow are about.
func Accept() Step { return step(func(p *player) error { return p.accept("") }, "Accept") }

// AcceptAs is Accept for a connection that On can return to.
func AcceptAs(name string) Step {
	return step(func(p *player) error { return p.accept(name) }, "AcceptAs(%q)", name)
}

// On returns to a connection of AcceptAs.
func On(name string) Step {
	return step(func(p *player) error {
		c, ok := p.named[name]
		if !ok {
			return errors.New("there is no connection of that name")
		}
		p.current = c
		return nil
	}, "On(%q)", name)
}

func (p *player) accept(name string) error {
	type accepted struct {
		conn net.Conn
		err  error
	}
	got := make(chan accepted, 1)
	p.accepts.Go(func() {
		conn, err := p.listener.Accept()
		got <- accepted{conn, err}
	})
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case a := <-got:
		if a.err != nil {
			return a.err
		}
		c := &peer{Conn: a.conn, frames: wire.NewFrameReader(a.conn, maxFrame)}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.peers = append(p.peers, c)
		p.current = c
		if name != "" {
			p.named[name] = c
		}
		if p.aborted != nil {
			c.Close()
		}
		return nil
	case <-timer.C:
		p.listener.Close() // ends the Accept
		if a := <-got; a.conn != nil {
			a.conn.Close()
		}
		return fmt.Errorf("no connection within %v", p.patience)
	}
}

// on makes a step about the current connection.
func on(run func(*player, *peer) error, format string, args ...any) Step {
	return step(func(p *player) error {
		if p.current == nil {
			return errors.New("no connection was accepted yet")
		}
		return run(p, p.current)
	}, format, args...)
}

// write sends b in pieces of at most n bytes, one write each.
func write(p *player, c *peer, b []byte, n int) error {
	if err := c.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return err
	}
	for len(b) > 0 {
		piece := b[:min(n, len(b))]
		if _, err := c.Write(piece); err != nil {
			return err
		}
		b = b[len(piece):]
	}
	return nil
}

// payload is v as JSON; a string or []byte is taken as it is.
func payload(v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case []byte:
		return v, nil
	}
	return wire.Marshal(v)
}

func frame(v any) ([]byte, error) {
	b, err := payload(v)
	return wire.AppendFrame(nil, b), err
}

func shown(v any) string {
	b, err := payload(v)
	if err != nil {
		return err.Error()
	}
	return short(string(b))
}

// short cuts a text for a failure's message.
func short(s string) string {
	const most = 2000
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
	}
	return s
}

// Send sends v as one frame: a string or []byte as it is, anything else as
// JSON.
func Send(v any) Step {
	return on(func(p *player, c *peer) error {
		b, err := frame(v)
		if err != nil {
			return err
		}
		return write(p, c, b, len(b))
	}, "Send(%s)", shown(v))
}

// SendFunc sends what f returns when the step's turn has come.
func SendFunc(f func() any) Step {
	return on(func(p *player, c *peer) error {
		b, err := frame(f())
		if err != nil {
			return err
		}
		return write(p, c, b, len(b))
	}, "SendFunc")
}

// SendSplit sends v as Send does, in writes of n bytes.
func SendSplit(v any, n int) Step {
	return on(func(p *player, c *peer) error {
		b, err := frame(v)
		if err != nil {
			return err
		}
		return write(p, c, b, n)
	}, "SendSplit(%s, %d)", shown(v), n)
}

// SendBytes sends b as it is, which need not be a frame.
func SendBytes(b []byte) Step {
	return on(func(p *player, c *peer) error { return write(p, c, b, len(b)) }, "SendBytes(%q)", short(string(b)))
}

// Trickle sends b byte by byte, with a pause before each.
func Trickle(b []byte, pause time.Duration) Step {
	return on(func(p *player, c *peer) error {
		for i := range b {
			time.Sleep(pause)
			if err := write(p, c, b[i:i+1], 1); err != nil {
				return fmt.Errorf("after %d bytes: %w", i, err)
			}
		}
		return nil
	}, "Trickle(%q, %v)", short(string(b)), pause)
}

// Drip is Trickle for as long as the other side wants it: it is over when that
// closes the connection, and sends b over and over until then.
func Drip(b []byte, pause time.Duration) Step {
	return on(func(p *player, c *peer) error {
		for i := 0; ; i = (i + 1) % len(b) {
			time.Sleep(pause)
			if write(p, c, b[i:i+1], 1) != nil {
				return nil
			}
		}
	}, "Drip(%q, %v)", short(string(b)), pause)
}

// Flood sends b over and over until the other side closes the connection, and
// fails when it has not done so after most bytes.
func Flood(b []byte, most int64) Step {
	return on(func(p *player, c *peer) error {
		for sent := int64(0); sent < most; sent += int64(len(b)) {
			if write(p, c, b, len(b)) != nil {
				return nil
			}
		}
		return fmt.Errorf("%d bytes were taken", most)
	}, "Flood(%q)", short(string(b)))
}

// IfOpen is the step, unless the other side has closed the connection.
func IfOpen(s Step) Step {
	return step(func(p *player) error {
		if err := s.run(p); !gone(err) {
			return err
		}
		return nil
	}, "IfOpen(%s)", s.name)
}

// Terminator sends the frame of length zero.
func Terminator() Step {
	return on(func(p *player, c *peer) error { return write(p, c, wire.AppendFrame(nil, nil), wire.HeaderLen) }, "Terminator")
}

// Delay lets time pass.
func Delay(d time.Duration) Step {
	return step(func(*player) error { time.Sleep(d); return nil }, "Delay(%v)", d)
}

// Do calls f, whose error is the step's.
func Do(name string, f func() error) Step {
	return step(func(*player) error { return f() }, "Do(%s)", name)
}

// CloseWrite half-closes the connection, as a guest does after its answer.
func CloseWrite() Step {
	return on(func(_ *player, c *peer) error {
		half, ok := c.Conn.(interface{ CloseWrite() error })
		if !ok {
			return fmt.Errorf("a %T has no CloseWrite", c.Conn)
		}
		return half.CloseWrite()
	}, "CloseWrite")
}

// Close closes the connection.
func Close() Step {
	return on(func(_ *player, c *peer) error { return c.Close() }, "Close")
}

// Reset tears the connection down, as an RST does.
func Reset() Step {
	return on(func(_ *player, c *peer) error {
		switch conn := c.Conn.(type) {
		case interface{ Reset() }:
			conn.Reset()
		case interface{ SetLinger(int) error }:
			if err := conn.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		default:
			return fmt.Errorf("a %T cannot be reset", c.Conn)
		}
		return nil
	}, "Reset")
}
