package transport_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// TestRecordedPorts plays the connections to ports of the guest.
func TestRecordedPorts(t *testing.T) {
	const other = "not a request of this host: "
	replayTalks(t, "tcp", map[string]string{
		"tcp-data-before-ready/c1":    other + "it waits for the connection",
		"tcp-host-private/c1":         other + "it connects to 127.0.0.1",
		"tcp-host-localhost/c1":       other + "it connects to 127.0.0.1",
		"tcp-host-0.0.0.0/c1":         other + "it connects to 127.0.0.1",
		"tcp-host-127.0.0.2/c1":       other + "it connects to 127.0.0.1",
		"tcp-ipv6-loopback/c1":        other + "it connects to 127.0.0.1",
		"tcp-port-0/c1":               other + "refused before it is sent",
		"tcp-port-65536/c1":           other + "refused before it is sent",
		"tcp-port-missing/c1":         other + "there is always a port",
		"tcp-no-body/c1":              other + "there is always a port",
		"tcp-port-fraction/c1":        other + "ports are whole",
		"tcp-port-as-string/c1":       other + "ports are numbers",
		"tcp-destroy/c1":              other + "it closes the connection instead",
		"tcp-heartbeat/c1":            other + "it does not stop its heartbeat",
		"tcp-upstream-half-closes/c1": "what the recording's client sent after the end is refused here",
	}, 5, map[string]func(*testing.T, *talk){"tcp-connect": replayPort})
}

func replayPort(t *testing.T, c *talk) {
	replayTalk(t, c, c.script(t, map[string]any{"host": "127.0.0.1"}), func(t *testing.T, p *pod) {
		conn, err := p.DialGuest(t.Context(), int(c.body()["port"].(float64)))
		if text, refused := c.refusal(); refused {
			if e := errorAs[*transport.PortError](t, err); e.Text != text {
				t.Errorf("got %v, want the agent's words %q", err, text)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, s := range c.Sent[1:] {
				var f struct{ Type, Data string }
				time.Sleep(time.Until(p.start.Add(time.Duration((s.Ms - c.Sent[0].Ms) * float64(time.Millisecond)))))
				json.Unmarshal(s.Frame, &f) // an event is no frame
				switch {
				case s.Event != "":
					conn.Close()
				case f.Type == "end":
					conn.(*transport.GuestConn).CloseWrite()
				default:
					b, err := base64.StdEncoding.DecodeString(f.Data)
					if err == nil {
						_, err = conn.Write(b)
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
		}()
		got, err := io.ReadAll(conn)
		<-done
		want, end := "", ""
		for _, e := range c.events(t) {
			b, decodeErr := base64.StdEncoding.DecodeString(e.Data)
			if decodeErr != nil {
				t.Fatal(decodeErr)
			}
			want, end = want+string(b), e.Type
			if text := e.Error; text != "" {
				if broken, ok := errors.AsType[*transport.PortError](err); !ok || broken.Text != text {
					t.Errorf("got %v, want %q", err, text)
				}
			}
		}
		if string(got) != want || (end == "end") != (err == nil) {
			t.Errorf("got %q, %v, want %q and then %q", got, err, want, end)
		}
	})
}
