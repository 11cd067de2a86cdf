package sim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// A line is an event of a watch with its time.
type line struct {
	after time.Duration
	kind  string
	body  object
}

// watch reads a watch to its end, beside the test; the channel gives all lines.
func (e *env) watch(path string) <-chan []line {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://10.0.0.1:443"+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.Token())
	begin := time.Now()
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		e.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		e.Fatalf("watch %s: %s", path, resp.Status)
	}
	out := make(chan []line, 1)
	go func() {
		defer cancel()
		defer resp.Body.Close()
		var lines []line
		r := bufio.NewReader(resp.Body)
		for {
			data, err := r.ReadBytes('\n')
			if err != nil {
				lines = append(lines, line{time.Since(begin), fmt.Sprint("end: ", err), nil})
				out <- lines
				return
			}
			var event struct {
				Type   string
				Object object
			}
			if err := json.Unmarshal(data, &event); err != nil {
				e.Errorf("line %q: %v", data, err)
			}
			lines = append(lines, line{time.Since(begin), event.Type, event.Object})
		}
	}()
	return out
}

func expectLines(t testing.TB, got []line, key func(object) string, want ...string) {
	t.Helper()
	var l []string
	for _, g := range got {
		s := g.after.String() + " " + g.kind
		if g.body != nil {
			s += " " + key(g.body)
		}
		l = append(l, s)
	}
	if strings.Join(l, "\n") != strings.Join(want, "\n") {
		t.Errorf("events:\n  %s\nwant:\n  %s", strings.Join(l, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestWatchAClaim(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		posted := e.claim("c", "pool", object{"lifecycle": object{"shutdownTime": time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339), "shutdownPolicy": "Delete"}})
		e.claim("other", "pool", nil)
		events := e.watch(claimsPath + "?watch=1&fieldSelector=metadata.name%3Dc&timeoutSeconds=60&allowWatchBookmarks=true&resourceVersion=" + text(posted.body, "metadata", "resourceVersion"))
		expectLines(t, <-events, ready,
			"5ms MODIFIED -",
			"30ms MODIFIED -",
			"30ms MODIFIED True DependenciesReady",
			"35ms MODIFIED True DependenciesReady",
			"3s MODIFIED False ClaimExpired",
			"3.01s DELETED False ClaimExpired",
			"58s BOOKMARK -",
			"1m0s end: EOF",
		)
	})
}

func TestWatchBeginsWithWhatThereIs(t *testing.T) {
	for _, version := range []string{"", "0"} {
		t.Run("resourceVersion="+version, func(t *testing.T) {
			bubble(t, sim.Config{}, func(e *env) {
				e.fill(2)
				events := e.watch(policiesPath + "?watch=true&timeoutSeconds=2&resourceVersion=" + version)
				e.sleep(time.Second)
				e.Delete("ciliumnetworkpolicies", "p0")
				e.Apply("ciliumnetworkpolicies", object{"metadata": object{"name": "p2"}})
				expectLines(t, <-events, func(o object) string { return text(o, "metadata", "name") },
					"0s ADDED p0", "0s ADDED p1", "1s DELETED p0", "1s ADDED p2", "2s end: EOF")
			})
		})
	}
}

// TestWatchSelectors: an object that a change moves in or out of what is
// selected is added or deleted.
func TestWatchSelectors(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.fill(2)
		events := e.watch(policiesPath + "?watch=1&timeoutSeconds=1&labelSelector=parity%3D1")
		synctest.Wait()
		relabel := func(name, parity string) {
			if err := e.Patch("ciliumnetworkpolicies", name, object{"metadata": object{"labels": object{"parity": parity}}}); err != nil {
				t.Fatal(err)
			}
		}
		relabel("p0", "1")
		relabel("p1", "0")
		relabel("p1", "2")
		e.Delete("ciliumnetworkpolicies", "p1")
		e.Delete("ciliumnetworkpolicies", "p0")
		got := <-events
		expectLines(t, got, func(o object) string { return text(o, "metadata", "name") + text(o, "metadata", "labels", "parity") },
			"0s ADDED p11", "0s ADDED p01", "0s DELETED p11", "0s DELETED p01", "1s end: EOF")
		if text(got[1].body, "metadata", "resourceVersion") >= text(got[2].body, "metadata", "resourceVersion") {
			t.Error("a deletion has the version of the object before it")
		}
	})
}

func TestWatchFromAForgottenVersion(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		version := text(e.get(claimsPath).body, "metadata", "resourceVersion")
		e.fill(1)
		e.Compact()
		got := <-e.watch(claimsPath + "?watch=1&resourceVersion=" + version)
		if len(got) != 2 || got[0].kind != "ERROR" || got[0].body["code"] != 410.0 || text(got[0].body, "reason") != "Expired" {
			t.Errorf("events %v, want one ERROR with 410", got)
		}
		version = text(e.get(claimsPath).body, "metadata", "resourceVersion")
		e.fill(2)
		if got := <-e.watch(claimsPath + "?watch=1&timeoutSeconds=1&resourceVersion=" + version); len(got) != 1 {
			t.Errorf("events %v, want none from the present", got)
		}
	})
}

func TestWatchEndsWithItsClient(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://10.0.0.1:443"+claimsPath+"?watch=1", nil)
		req.Header.Set("Authorization", "Bearer "+e.Token())
		begin := time.Now()
		resp, err := e.transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		if d := time.Since(begin); d != time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v, want DeadlineExceeded after a minute", err, d)
		}
	})
}

func TestWatchEndsWithTheCluster(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		events := e.watch(claimsPath + "?watch=1")
		e.sleep(time.Second)
		e.Close()
		got := <-events
		if len(got) != 1 || got[0].kind == "end: EOF" || got[0].after != time.Second {
			t.Errorf("events %v, want a cut after a second", got)
		}
		if _, err := e.send("GET", claimsPath, "", ""); err == nil {
			t.Error("a closed cluster answers")
		}
		e.Close()
		if l, err := e.net.Listen("tcp", "10.0.0.2:443"); err != nil {
			t.Fatal(err)
		} else {
			e.Serve(l)
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Serve of a closed cluster left its listener open: %v", err)
			}
		}
	})
}

func TestBookmarks(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.fill(1)
		events := e.watch(policiesPath + "?watch=1&timeoutSeconds=150&allowWatchBookmarks=true&resourceVersion=0")
		e.sleep(90 * time.Second)
		e.Delete("ciliumnetworkpolicies", "p0")
		version := text(e.get(policiesPath).body, "metadata", "resourceVersion")
		got := <-events
		expectLines(t, got, func(o object) string {
			return text(o, "metadata", "name") + text(o, "metadata", "annotations", "k8s.io/initial-events-end")
		},
			"0s ADDED p0", "0s BOOKMARK true", "1m0s BOOKMARK ", "1m30s DELETED p0", "2m0s BOOKMARK ", "2m28s BOOKMARK ", "2m30s end: EOF")
		if last := text(got[5].body, "metadata", "resourceVersion"); last != version {
			t.Errorf("the last bookmark is at version %s, want %s", last, version)
		}
	})
}
