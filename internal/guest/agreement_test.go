//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
)

const replaysAtOnce = 16

// TestRecordings plays the recordings of the reference guest and compares every
// frame and the way every connection ends.
func TestRecordings(t *testing.T) {
	t.Parallel()
	recordings := loadRecordings(t)
	for _, names := range []map[string]string{exceptions, rootExceptions, notReplayed} {
		for name := range names {
			if !slices.ContainsFunc(recordings, func(r *recording) bool { return r.has(name) }) {
				t.Errorf("%s is listed, but there is no such recording", name)
			}
		}
	}
	for _, r := range recordings {
		if len(r.Lines) == 0 && r.Facts["started"] == nil && notReplayed[r.Name] == "" { // TestStartRefusals has others
			t.Errorf("%s has no connections: what becomes of it?", r.Name)
		}
	}
	recordings = slices.DeleteFunc(recordings, func(r *recording) bool {
		return len(r.Lines) == 0 || notReplayed[r.Name] != "" || !asThisUser(r)
	})
	results := make([][]string, len(recordings))
	slots := make(chan struct{}, replaysAtOnce)
	root := folder(t)
	var all sync.WaitGroup
	groups := groupRecordings(recordings)
	slices.SortStableFunc(groups, func(a, b []int) int { return len(b) - len(a) }) // the longest take longest
	for _, group := range groups {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			playGroup(root, recordings, group, results)
		})
	}
	all.Wait()
	for _, group := range groups {
		// Programs of recordings say something every 50 ms, which many guests at
		// once on a busy machine may miss. What differs again differs.
		if slices.ContainsFunc(group, func(i int) bool { return len(results[i]) > 0 && excepted(recordings[i]) == "" }) {
			for _, i := range group {
				results[i] = nil
			}
			playGroup(root, recordings, group, results)
		}
	}
	killDaemons(root) // some recordings start them
	for i, r := range recordings {
		t.Run(r.file+"/"+r.Name, func(t *testing.T) {
			reason, diffs := excepted(r), results[i]
			switch {
			case reason == "" && len(diffs) > 0:
				t.Errorf("%s\n%s", r.Note, strings.Join(diffs, "\n"))
			case reason != "" && len(diffs) == 0:
				t.Errorf("follows the recording, but is listed as an exception: %s", reason)
			}
		})
	}
}

// excepted is why a recording is not followed; empty if it is.
func excepted(r *recording) string {
	if reason := rootExceptions[r.Name]; os.Geteuid() == 0 && reason != "" {
		return reason
	}
	return exceptions[r.Name]
}

// asThisUser reports whether a recording was made as a user like this one. Most
// look the same for all, and root_differs has those that do not.
func asThisUser(r *recording) bool {
	root := os.Geteuid() == 0
	switch {
	case unprivileged[r.Name]:
		return canDrop()
	case r.Agent.As == "root":
		return root
	case root:
		return !slices.Contains([]string{"read-no-permission", "stream-no-permission"}, r.Name)
	}
	return true
}

// groupRecordings groups the indices of recordings that are played one after the
// other on the same guest.
func groupRecordings(recordings []*recording) [][]int {
	var groups [][]int
	chained := false // the last group goes on
	groupOf := map[string]int{}
	for i, r := range recordings {
		s := stages[r.file]
		begins := s.chained && (s.from == "" || s.from == r.Name)
		switch at, ok := groupOf[basis[r.Name]]; {
		case ok:
			groups[at] = append(groups[at], i)
			continue
		case (chained && s.chained || s.shared) && i > 0 && recordings[i-1].file == r.file && same(recordings[i-1].Agent, r.Agent):
			groups[len(groups)-1] = append(groups[len(groups)-1], i)
		default:
			groups = append(groups, []int{i})
			chained = begins
		}
		if s.to == r.Name {
			chained = false
		}
		groupOf[r.Name] = len(groups) - 1
	}
	return groups
}

func playGroup(root string, recordings []*recording, group []int, results [][]string) {
	first := recordings[group[0]]
	fail := func(err error) {
		for _, i := range group {
			results[i] = append(results[i], err.Error())
		}
	}
	outside, err := newFolderIn(root)
	if err != nil {
		fail(err)
		return
	}
	g, err := bootReplay(root, first, outside)
	if err != nil {
		fail(err)
		return
	}
	play := func(i int) {
		b := &binding{
			names: map[string]string{"token": testToken, "workspace": g.workspace, "workspace-name": filepath.Base(g.workspace)},
			swaps: strings.NewReplacer(append([]string{outsidePath, outside}, stretched[recordings[i].Name]...)...),
		}
		p := &replay{r: recordings[i], g: g, b: b, outside: outside}
		results[i] = append(p.play(), p.check()...)
	}
	if stages[first.file].shared {
		var all sync.WaitGroup
		slots := make(chan struct{}, replaysAtOnce)
		for _, i := range group {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				play(i)
			})
		}
		all.Wait()
	} else {
		for _, i := range group {
			play(i)
		}
	}
	if err := g.stop(); err != nil {
		fail(err)
	}
}

// TestStartRefusals follows the recordings of guests that were started with a
// configuration of which nothing good can come, and of some that look odd.
func TestStartRefusals(t *testing.T) {
	base := []string{"NAMZU_AGENT_TCP_PORT=0", "NAMZU_AGENT_BIND_TOKEN=x"}
	environs := map[string][]string{
		"start-no-listener":              {"NAMZU_AGENT_BIND_TOKEN=x"},
		"start-tcp-without-credential":   {"NAMZU_AGENT_TCP_PORT=0"},
		"start-port-70000":               {"NAMZU_AGENT_TCP_PORT=70000", "NAMZU_AGENT_BIND_TOKEN=x"},
		"start-port-abc":                 {"NAMZU_AGENT_TCP_PORT=abc", "NAMZU_AGENT_BIND_TOKEN=x"},
		"start-port-1.5":                 {"NAMZU_AGENT_TCP_PORT=1.5", "NAMZU_AGENT_BIND_TOKEN=x"},
		"start-empty-require-token-only": {"NAMZU_AGENT_TCP_PORT=0"},
	}
	played := 0
	for _, r := range loadRecordings(t) {
		if len(r.Lines) > 0 || r.Facts["started"] == nil {
			continue
		}
		played++
		environ := base
		if own, ok := environs[r.Name]; ok {
			environ = own
		}
		environ = slices.Clone(environ)
		for name, value := range r.Agent.Env {
			environ = append(environ, name+"="+value)
		}
		config, _, err := guest.ConfigFromEnv(environ)
		if err == nil {
			config.Workspace = testRoot
			var s *guest.Server
			if s, err = guest.New(config); err == nil {
				s.Close()
			}
		}
		if started := err == nil; fmt.Sprint(started) != fmt.Sprint(r.Facts["started"]) {
			t.Errorf("%s: error %v, recorded: %v", r.Name, err, r.Facts)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", r.Name, err)
		}
	}
	if played < 14 {
		t.Errorf("%d recordings of starts, want all", played)
	}
}
