package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func TestHealth(t *testing.T) {
	all := transport.Features{"write-file-parts", "execution-attach", "stream-heartbeat", "read-file-stream", "sessions", "quiesce", "flush", "guest-boot-id"}
	for _, tt := range []struct {
		name, reply string
		want        transport.Health
		err         string
	}{
		{"a healthy guest", features, transport.Health{OK: true, Features: all}, ""},
		{"a guest that has fenced itself", `{"ok":false,"protocolVersion":2,"features":["flush"],"retiring":true}`,
			transport.Health{Retiring: true, Features: transport.Features{"flush"}}, ""},
		{"a guest that has too many callers has not fenced itself", `{"ok":false,"error":"too_many_unauthenticated_connections: limit 64 (X)"}`,
			transport.Health{}, "transport: healthz: the guest refused: too_many_unauthenticated_connections: limit 64 (X)"},
		{"a guest of another version", `{"ok":true,"protocolVersion":1,"features":[]}`, transport.Health{}, "protocol version 1, want 2"},
		{"nonsense", `[]`, transport.Health{}, "not a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{serve("healthz", tt.reply, Body(""))}, func(t *testing.T, p *pod) {
				got, err := p.Health(t.Context())
				if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %+v, %v, want %+v, %s", got, err, tt.want, tt.err)
				}
			})
		})
	}
}

// TestFeaturesAreAskedForOnce also when the guest was asked how it is before.
func TestFeaturesAreAskedForOnce(t *testing.T) {
	for _, first := range []string{"Features", "Health"} {
		bubble(t, transport.Config{}, []Step{serve("healthz", features)}, func(t *testing.T, p *pod) {
			if first == "Health" {
				p.Health(t.Context())
			}
			for range 2 {
				f, err := p.Features(t.Context())
				if err != nil || !f.Has("sessions") || f.Has("session") {
					t.Errorf("%s first: got %v, %v", first, f, err)
				}
				clear(f) // the caller's own
			}
		})
	}
}

// TestControlAnswers has everything that can be wrong with the answer to a
// request that has a single one.
func TestControlAnswers(t *testing.T) {
	protocol := func(err error) bool { _, ok := errors.AsType[*transport.ProtocolError](err); return ok }
	lost := func(err error) bool {
		e, ok := errors.AsType[*transport.LostError](err)
		return ok && e.Sent && !e.Confirmed && !transport.SafeToRetry(err)
	}
	good := frames(features)
	for _, tt := range []struct {
		name  string
		steps []Step
		is    func(error) bool
		text  string
		took  time.Duration
	}{
		{"nothing, and the connection is closed", []Step{Close()}, lost, "closed before the answer", 0},
		{"nothing, and the connection is reset", []Step{Reset()}, lost, "connection reset", 0},
		{"nothing for as long as it takes", []Step{ExpectClose()}, lost, "no byte came for 1m0s", time.Minute},
		{"bytes now and then, and then no more", []Step{Trickle(good[:3], 59*time.Second), ExpectClose()}, lost, "no byte came for 1m0s", 3*59*time.Second + time.Minute},
		{"a part of the answer", []Step{SendBytes(good[:len(good)-1]), Close()}, lost, "unexpected EOF", 0},
		{"a header that is none", []Step{SendBytes([]byte("HTTP/1.1 ")), ExpectClose()}, protocol, "malformed frame header", 0},
		{"a length that is a lie upwards", []Step{SendBytes([]byte("00100001\n{}")), ExpectClose()}, protocol, "1048577 bytes announced", 0},
		{"a length that is a lie downwards", []Step{SendBytes(append([]byte("0000000b\n"), good[9:]...)), ExpectClose()}, protocol, "not a JSON object", 0},
		{"the terminator", []Step{Terminator(), ExpectClose()}, protocol, "not a JSON object", 0},
		{"a second answer", []Step{SendBytes(append(append([]byte{}, good...), good...)), ExpectClose()}, protocol, "came after the answer", 0},
		{"a second answer a little later", []Step{SendBytes(good), Delay(999 * time.Millisecond), SendBytes(good), ExpectClose()}, protocol, "came after the answer", 999 * time.Millisecond},
		{"a stray byte", []Step{SendBytes(append(append([]byte{}, good...), 0)), ExpectClose()}, protocol, "came after the answer", 0},
		{"the answer, and no close", []Step{SendBytes(good), ExpectClose()}, protocol, "not closed within 1s after the answer", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, append([]Step{Accept(), Expect("healthz")}, tt.steps...), func(t *testing.T, p *pod) {
				_, err := p.Health(t.Context())
				if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %T %v, want %q in it", err, err, tt.text)
				}
				p.took(t, tt.took)
			})
		})
	}
	for name, end := range map[string]Step{
		"closed in the last moment": Seq(Delay(999*time.Millisecond), Close()),
		"reset instead of closed":   Seq(Delay(time.Millisecond), Reset()),
	} {
		bubble(t, transport.Config{}, []Step{Accept(), Expect("healthz"), SendBytes(good), end}, func(t *testing.T, p *pod) {
			if _, err := p.Health(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	t.Run("split and trickling", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{Accept(), Expect("healthz"), Trickle(good, 59*time.Second), CloseWrite(), ExpectClose()}, func(t *testing.T, p *pod) {
			if _, err := p.Health(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestConfig(t *testing.T) {
	valid := transport.Config{Host: "h", Port: 1}
	if _, err := transport.New(valid); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*transport.Config){
		"no host":              func(c *transport.Config) { c.Host = "" },
		"no port":              func(c *transport.Config) { c.Port = 0 },
		"a port out of range":  func(c *transport.Config) { c.Port = 65536 },
		"a negative attempt":   func(c *transport.Config) { c.AttemptTimeout = -1 },
		"a negative budget":    func(c *transport.Config) { c.DialBudget = -1 },
		"a negative idle time": func(c *transport.Config) { c.IdleTimeout = -1 },
		"a negative reserve":   func(c *transport.Config) { c.ReserveTimeout = -1 },
		"a negative close":     func(c *transport.Config) { c.CloseTimeout = -1 },
		"a negative size":      func(c *transport.Config) { c.MaxFileBytes = -1 },
	} {
		c := valid
		change(&c)
		if _, err := transport.New(c); err == nil || !strings.HasPrefix(err.Error(), "transport: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSecret formats a secret in every way there is.
func TestSecret(t *testing.T) {
	const secret = transport.Secret("s3cr3t")
	config := transport.Config{Token: secret}
	endpoint := &transport.Endpoint{Token: secret}
	var texts []string
	for _, v := range []any{secret, config, &config, endpoint, []transport.Secret{secret}, map[string]any{"a": secret}, struct{ S transport.Secret }{secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3v", "%!"} {
			texts = append(texts, fmt.Sprintf(verb, v))
		}
		texts = append(texts, fmt.Sprint(v), fmt.Sprintln(v))
	}
	js, err := json.Marshal(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "secret", secret, "endpoint", endpoint)
	}
	for _, text := range append(texts, string(js), log.String()) {
		low := strings.ToLower(text)
		if strings.Contains(low, "s3cr3t") || strings.Contains(low, "733363723374") || strings.Contains(low, "115 51 99") {
			t.Errorf("the secret is in %q", text)
		}
	}
	if got := fmt.Sprintf("%v|%s|%q", secret, secret, transport.Secret("")); got != "[redacted]|[redacted]|" {
		t.Errorf("got %q", got)
	}
}

// TestNoErrorHasTheToken runs into as many errors as there are.
func TestNoErrorHasTheToken(t *testing.T) {
	fail := func(name string, err error) {
		if err == nil || strings.Contains(err.Error(), token) || strings.Contains(fmt.Sprintf("%+v %#v", err, err), token) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, step := range map[string]Step{
		"refused":   answer(`{"ok":false,"error":"unauthorized"}`),
		"reset":     Reset(),
		"nonsense":  SendBytes([]byte("x23456789")),
		"too large": SendBytes([]byte("ffffffff\n")),
		"error":     answer(`{"ok":false,"error":"EIO"}`),
	} {
		bubble(t, transport.Config{}, []Step{Accept(), Expect("write-file", Token(token)), step}, func(t *testing.T, p *pod) {
			_, err := p.WriteFile(t.Context(), "a", strings.NewReader("x"))
			fail(name, err)
		})
	}
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		_, err := p.WriteFile(t.Context(), "a", strings.NewReader("x"))
		fail("dial", err)
		err = p.Command(t.Context(), "x", strings.Repeat("x", 9<<20)).Run()
		fail("large request", err)
	})
}

func TestSafeToRetry(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&transport.DialError{}, true},
		{&transport.UnresolvableError{Err: errCause}, true},
		{&transport.UnauthorizedError{}, true},
		{&transport.RetiringError{}, true},
		{&transport.UnsupportedError{}, true},
		{&transport.StartError{}, true},
		{fmt.Errorf("wrapped: %w", &transport.StartError{}), true},
		{&transport.LostError{Sent: false}, true},
		{&transport.LostError{Sent: true}, false},
		{&transport.LostError{Sent: true, Confirmed: true}, false},
		{&transport.CancelError{}, false},
		{&transport.CancelError{Err: &transport.DialError{}}, false},
		{&transport.LostError{Sent: true, Cause: &transport.DialError{}}, false},
		{&transport.StartError{Err: &transport.ProtocolError{}}, true},
		{errors.Join(&transport.DialError{}, &transport.DialError{}), true},
		{errors.Join(&transport.DialError{}, errCause), false},
		{&transport.TooLargeError{}, true},
		{&transport.ProtocolError{}, false},
		{&transport.ExitError{}, false},
		{&transport.StoppedError{}, true},
		{&transport.StoppedError{Cause: &transport.DialError{}, Result: &transport.Result{}}, false},
		{&transport.FileError{}, false},
		{context.Canceled, false},
		{nil, false},
	} {
		if got := transport.SafeToRetry(tt.err); got != tt.want {
			t.Errorf("SafeToRetry(%T) = %v, want %v", tt.err, got, tt.want)
		}
	}
}
