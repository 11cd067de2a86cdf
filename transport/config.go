package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// A Config says which guest to speak to and how long to wait for what.
type Config struct {
	Host  string // name or address; a name is resolved anew for every connection
	Port  int
	Token Secret // sent with every request unless empty

	// DialContext makes connections; nil is a net.Dialer with TCP keep-alive
	// after 15 seconds.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	AttemptTimeout time.Duration // of one attempt to connect; zero is 5 seconds
	DialBudget     time.Duration // of all attempts to make one connection; zero is 30 seconds
	IdleTimeout    time.Duration // without a byte, while an answer is due; zero is 60 seconds
	ReserveTimeout time.Duration // to connect, once its turn has come, and get an execution id; zero is 2 seconds
	CloseTimeout   time.Duration // from a complete answer to the peer's close; zero is 1 second

	// Heartbeat is how often both sides of a terminal, an attached session or a
	// connection to a guest's port say that they are there. A guest that is
	// silent for three times as long is given up. It begins at 100 milliseconds;
	// zero is never.
	Heartbeat time.Duration

	// MaxFileBytes is the largest file that ReadFile and WriteFile accept, and
	// the most that is read from a Cmd's Stdin; zero is 1 GiB.
	MaxFileBytes int64

	// Restarted is told of a guest that was restarted: its process is another
	// one at the same endpoint, and what ran in it is gone. It is called before
	// the operation that has noticed returns, by the goroutine that carries it
	// out. A guest that replaces another, as Refresh finds it, is not told of.
	// Nil: nobody is.
	Restarted func(before, after string)

	// Refresh asks where the guest is now and what its token is. It is called
	// after a connection could not be made and after a token was refused, at
	// most once for an operation and once for all operations that ask at the
	// same time, with 10 seconds to answer. An answer that differs from what
	// just failed is used from then on, and the operation is tried once more,
	// provided that nothing of it can have happened. Nil: never.
	Refresh func(ctx context.Context) (Endpoint, error)
}

func (c Config) withDefaults() Config {
	if c.DialContext == nil {
		c.DialContext = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	setDefault(&c.AttemptTimeout, 5*time.Second)
	setDefault(&c.DialBudget, 30*time.Second)
	setDefault(&c.IdleTimeout, time.Minute)
	setDefault(&c.ReserveTimeout, 2*time.Second)
	setDefault(&c.CloseTimeout, time.Second)
	setDefault(&c.MaxFileBytes, 1<<30)
	return c
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (c Config) validate() error {
	if err := (Endpoint{c.Host, c.Port, c.Token}).validate(); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"AttemptTimeout", c.AttemptTimeout}, {"DialBudget", c.DialBudget}, {"IdleTimeout", c.IdleTimeout},
		{"ReserveTimeout", c.ReserveTimeout}, {"CloseTimeout", c.CloseTimeout},
		{"Heartbeat", c.Heartbeat},
	} {
		if d.d < 0 {
			return fmt.Errorf("transport: Config.%s is %v, want a positive duration or zero", d.name, d.d)
		}
	}
	if c.MaxFileBytes < 0 {
		return fmt.Errorf("transport: Config.MaxFileBytes is %d, want a positive number or zero", c.MaxFileBytes)
	}
	return nil
}

func (e Endpoint) validate() error {
	if e.Host == "" {
		return errors.New("transport: no host of the guest is given")
	}
	if e.Port < 1 || e.Port > 65535 {
		return fmt.Errorf("transport: port %d of the guest is out of range", e.Port)
	}
	return nil
}
