package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/sim"
)

// A guest of fewer features is no failure: a step that needs one of them is left
// out, and the guest is given back as usual.
func TestTrialOfAGuestThatOffersLess(t *testing.T) {
	t.Parallel()
	_, flags := serve(t, sim.Config{})
	s := connected(t, flags)
	s.cluster.dial = withoutFeatures("execution-attach", "sessions", "quiesce", "flush")
	var err error
	if s.backend, err = acquire.New(s.client, s.config()); err != nil {
		t.Fatal(err)
	}
	s.trials = []*trial{{backend: s.backend, client: s.client, options: s.options, ledger: &s.ledger}}
	s.trials[0].run(t.Context())
	if _, err := s.findLeaks(t.Context()); err != nil {
		t.Error(err)
	}
	r := s.result()
	var skipped []string
	for _, step := range r.document().Steps {
		if step.Skipped {
			skipped = append(skipped, step.Name+" "+step.Detail)
		}
	}
	want := []string{
		"attach not offered by this guest, which does not announce execution-attach",
		"session not offered by this guest, which does not announce sessions",
		"flush not offered by this guest, which does not announce flush",
		"quiesce not offered by this guest, which does not announce sessions",
	}
	if r.failure != nil || !slices.Equal(skipped, want) {
		t.Errorf("left out was %q, want %q; failure %+v", skipped, want, r.failure)
	}
	if text := r.text(); !strings.Contains(text, "4 not offered by the guest") {
		t.Errorf("the report does not count what was left out:\n%s", text)
	}
	for _, step := range r.steps {
		if step.name == stepHealth && !strings.Contains(step.detail, "does not offer execution-attach, sessions, quiesce, flush") {
			t.Errorf("health says %q", step.detail)
		}
	}
}

// withoutFeatures dials, and misspells what the guest announces.
func withoutFeatures(names ...string) func(context.Context, string, string) (net.Conn, error) {
	var old []string
	for _, name := range names {
		old = append(old, `"`+name+`"`, `"`+strings.Repeat("-", len(name))+`"`)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &misspelling{Conn: conn, words: strings.NewReplacer(old...)}, err
	}
}

// A misspelling changes words in what it reads, if they come in one piece, as
// the short answer to a question for the features does.
type misspelling struct {
	net.Conn
	words *strings.Replacer
	ready []byte
}

func (m *misspelling) Read(p []byte) (int, error) {
	if len(m.ready) == 0 {
		piece := make([]byte, 64<<10)
		n, err := m.Conn.Read(piece)
		if err != nil {
			return 0, err
		}
		m.ready = piece[:n]
		if bytes.Contains(m.ready, []byte(`"features"`)) {
			m.ready = []byte(m.words.Replace(string(m.ready)))
		}
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

// Whatever a guest is doing, an interrupted run ends and gives the sandbox back.
func TestTrialInterrupted(t *testing.T) {
	t.Parallel()
	cluster, flags := serve(t, sim.Config{})
	var all []*session
	var wg sync.WaitGroup
	for i, name := range []string{stepStream, stepAttach, stepTerminal, stepSession, stepTree, stepPort, stepQuiesce} {
		s := connected(t, flags)
		all = append(all, s)
		wg.Go(func() {
			ctx, interrupt := context.WithCancelCause(t.Context())
			defer interrupt(nil)
			one := &trial{backend: s.backend, client: s.client, options: s.options, ledger: &s.ledger}
			one.begin = func(step string) {
				if step == name {
					time.AfterFunc(time.Duration(2*i)*time.Millisecond, func() { interrupt(errInterrupt) })
				}
			}
			one.run(ctx)
			failure, last := failed(one.steps), one.steps[len(one.steps)-1]
			if failure != nil && failure.Reason != "interrupted" || last.name != stepRelease || !last.ok { // it may have been faster
				t.Errorf("interrupted in %s: failure %+v, the last step is %+v", name, failure, last)
			}
		})
	}
	wg.Wait()
	for _, s := range all { // they all have the same label
		if _, err := s.findLeaks(t.Context()); err != nil {
			t.Error(err)
		}
	}
	expectNothingLeft(t, cluster)
}

// An image with next to nothing in it is no failure either.
func TestTrialOfAMinimalImage(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, name := range []string{"sh", "cat", "sleep", "mkdir", "chmod", "true"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, flags := serve(t, sim.Config{Guest: func(_ map[string]any, c *guest.Config) {
		c.Environ = append(c.Environ, "PATH="+bin)
	}})
	smoke(t, flags...).expect(t, exitOK, "18 of 18 steps ok",
		"no stty, so no size was seen", "no GNU find and base64, so they were fetched one by one",
		"a port where nobody listens is refused; the image has no perl, python3 or node to serve with, and nothing else was there")
}

// The agent's own port is one that every image has, where it listens at all
// addresses.
func TestTrialConnectsToTheAgentWhereThereIsNothingElse(t *testing.T) {
	t.Parallel()
	at, _ := startGuest(t)
	_, flags := serve(t, sim.Config{Guest: func(_ map[string]any, c *guest.Config) {
		c.DialContext = func(ctx context.Context, network, wanted string) (net.Conn, error) {
			if strings.HasSuffix(wanted, ":1024") {
				wanted = at.address
			}
			return (&net.Dialer{}).DialContext(ctx, network, wanted)
		}
	}})
	s := connected(t, flags)
	sandbox, err := s.backend.Create(t.Context(), acquire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Release(t.Context())
	detail, err := (&trial{sandbox: sandbox, options: s.options}).agentPort(t.Context())
	if err != nil || !strings.Contains(detail, "answers at its own port") {
		t.Errorf("agentPort = %q, %v", detail, err)
	}
}

func TestCompareNamesTheDifference(t *testing.T) {
	want := map[string]leaf{".": {dir: true}, "a": {data: "1"}, "b": {executable: true}}
	for _, c := range []struct {
		sentence string
		got      map[string]leaf
		words    string // "" for no difference
	}{
		{"the same", map[string]leaf{".": {dir: true}, "a": {data: "1"}, "b": {executable: true}}, ""},
		{"one is missing", map[string]leaf{".": {dir: true}, "a": {data: "1"}}, `"b", an executable of 0 bytes, is missing`},
		{"one has other bytes", map[string]leaf{".": {dir: true}, "a": {data: "2"}, "b": {executable: true}}, `"a", a file of 1 bytes, came back as`},
		{"one lost its mode", map[string]leaf{".": {dir: true}, "a": {data: "1"}, "b": {}}, "came back as a file of 0 bytes"},
		{"one is too many", map[string]leaf{".": {dir: true}, "a": {data: "1"}, "b": {executable: true}, "c": {dir: true}}, `"c", a directory, which nobody has put there`},
	} {
		err := compare("came back as", c.got, want)
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.sentence, err, c.words)
		}
	}
}
