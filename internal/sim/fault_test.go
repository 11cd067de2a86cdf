package sim_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// faulty has a fault for requests of one verb, which can be set later.
func faulty(verb string, fault **sim.Fault) sim.Config {
	return sim.Config{Pools: []map[string]any{}, Fault: func(r *sim.Request) *sim.Fault {
		if r.Verb != verb {
			return nil
		}
		return *fault
	}}
}

func TestFaultsOfACreate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  sim.Fault
		err    error // of the request
		code   int
		took   time.Duration
		effect bool
	}{
		{"none", sim.Fault{}, nil, 201, 0, true},
		{"reset before", sim.Fault{ResetBefore: true}, syscall.ECONNRESET, 0, 0, false},
		{"reset after", sim.Fault{ResetAfter: true}, syscall.ECONNRESET, 0, 0, true},
		{"hang", sim.Fault{Hang: true}, context.DeadlineExceeded, 0, time.Minute, false},
		{"hang after", sim.Fault{HangAfter: true}, context.DeadlineExceeded, 0, time.Minute, true},
		{"delay", sim.Fault{Delay: 3 * time.Second}, nil, 201, 3 * time.Second, true},
		{"delay and reset", sim.Fault{Delay: 3 * time.Second, ResetBefore: true}, syscall.ECONNRESET, 0, 3 * time.Second, false},
		{"a delay longer than the client's patience", sim.Fault{Delay: time.Hour}, context.DeadlineExceeded, 0, time.Minute, false},
		{"late, after the client has gone", sim.Fault{Late: time.Second}, context.DeadlineExceeded, 0, time.Minute, false},
		{"another answer", sim.Fault{Code: 503, Body: []byte("busy"), ContentType: "text/plain"}, nil, 503, 0, false},
		{"cut", sim.Fault{Cut: 10}, io.ErrUnexpectedEOF, 201, 0, true},
		{"rewritten", sim.Fault{Replace: bytes.ToUpper}, nil, 201, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fault := &tt.fault
			bubble(t, faulty("create", &fault), func(e *env) {
				ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, "POST", "http://10.0.0.1:443"+claimsPath, strings.NewReader(plainClaim))
				req.Header.Set("Authorization", "Bearer "+e.Token())
				begin := time.Now()
				resp, err := e.transport.RoundTrip(req)
				code, body := 0, []byte(nil)
				if err == nil {
					defer resp.Body.Close()
					code = resp.StatusCode
					body, err = io.ReadAll(resp.Body)
				}
				if !errors.Is(err, tt.err) || code != tt.code || time.Since(begin) != tt.took {
					t.Errorf("%d %v after %v, want %d %v after %v", code, err, time.Since(begin), tt.code, tt.err, tt.took)
				}
				if effect := e.Get("sandboxclaims", "c") != nil; effect != tt.effect {
					t.Errorf("the claim exists: %t, want %t", effect, tt.effect)
				}
				if log := e.Requests(); len(log) != 1 || log[0].Code != tt.code {
					t.Errorf("log %v, want one request answered %d", log, tt.code)
				}
				switch tt.name {
				case "late, after the client has gone":
					time.Sleep(2 * time.Second)
					if e.Get("sandboxclaims", "c") == nil {
						t.Error("the claim does not exist, late as it is")
					}
				case "cut":
					if len(body) != 10 || resp.ContentLength < 100 {
						t.Errorf("%d of %d bytes, want 10 of many", len(body), resp.ContentLength)
					}
				case "rewritten":
					if !bytes.Contains(body, []byte(`"KIND":"SANDBOXCLAIM"`)) {
						t.Errorf("body %s", body)
					}
				}
			})
		})
	}
}

func TestFaultAnswer(t *testing.T) {
	fault := &sim.Fault{Code: 429, Header: http.Header{"retry-after": {"7"}}, Body: []byte("Too many requests, please try again later.\n"), ContentType: "text/plain; charset=utf-8"}
	bubble(t, faulty("get", &fault), func(e *env) {
		r := e.get(claimsPath + "/c")
		if r.code != 429 || r.header.Get("Retry-After") != "7" || r.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasPrefix(r.raw, "Too many") {
			t.Errorf("%d %v %q", r.code, r.header, r.raw)
		}
		if r.header.Get("Date") != time.Now().UTC().Format(http.TimeFormat) {
			t.Errorf("Date: %s", r.header.Get("Date"))
		}
		fault = nil
		if r := e.get(claimsPath + "/c"); r.code != 404 {
			t.Errorf("without the fault: %d", r.code)
		}
	})
}

// TestFaultsOfAWatch: a watch can be silent, cut in the middle of a line, or
// say something else.
func TestFaultsOfAWatch(t *testing.T) {
	fault := &sim.Fault{}
	bubble(t, faulty("watch", &fault), func(e *env) {
		e.fill(3)
		name := func(o object) string { return text(o, "metadata", "name") }
		fault = &sim.Fault{Cut: 400}
		got := <-e.watch(policiesPath + "?watch=1")
		if n := len(got); n != 2 || got[0].kind != "ADDED" || got[1].kind != "end: unexpected EOF" {
			t.Errorf("cut: %v, want one event and an unexpected end", got)
		}
		fault = &sim.Fault{Replace: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("ADDED"), []byte("BOOKMARK")) }}
		expectLines(t, <-e.watch(policiesPath+"?watch=1&timeoutSeconds=1"), name, "0s BOOKMARK p0", "0s BOOKMARK p1", "0s BOOKMARK p2", "1s end: EOF")
		fault = &sim.Fault{HangAfter: true}
		silent := e.watch(policiesPath + "?watch=1&timeoutSeconds=1")
		e.sleep(time.Hour)
		select {
		case got := <-silent:
			t.Errorf("a silent watch ended: %v", got)
		default:
		}
		fault = &sim.Fault{ResetAfter: true}
		if r, err := e.send("GET", policiesPath+"?watch=1", "", ""); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reset: %d %v, want ECONNRESET", r.code, err)
		}
	})
}
