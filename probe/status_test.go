package probe_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/probe"
)

// recorded returns a file that a kernel printed.
func recorded(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "recorded", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// status prints the lines that the probe reads, as a kernel aligns them.
func status(inh, prm, eff, bnd, amb, nnp string) string {
	return fmt.Sprintf("Name:\tcat\nUid:\t1001\t1001\t1001\t1001\nCapInh:\t%s\nCapPrm:\t%s\nCapEff:\t%s\nCapBnd:\t%s\nCapAmb:\t%s\nNoNewPrivs:\t%s\nSeccomp:\t2\n",
		inh, prm, eff, bnd, amb, nnp)
}

const (
	zero = "0000000000000000"
	full = "ffffffffffffffff"
)

// withLine replaces the line of that name; an empty replacement removes it.
func withLine(text, name, replacement string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+":") {
			b.WriteString(replacement)
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestParseRecorded(t *testing.T) {
	const all = 0x1fffeffffff
	const gvisorAll = 0x1ffffffdfff
	for name, want := range map[string]probe.Status{
		"linux-confined.status": {HasAmbient: true, HasNoNewPrivs: true, NoNewPrivs: true, UID: 1001},
		"linux-root.status":     {Permitted: all, Effective: all, Bounding: all, HasAmbient: true, HasNoNewPrivs: true},
		"linux-container-default.status": {
			Bounding: 0xa80425fb, HasAmbient: true, HasNoNewPrivs: true, UID: 1001},
		"gvisor-2022-confined.status": {UID: 1001},
		"gvisor-2022-root.status": {
			Inheritable: 0x3fffffdfff, Permitted: 0x3fffffdfff, Effective: 0x3fffffdfff, Bounding: 0x3fffffdfff},
		"gvisor-2026-confined.status": {HasAmbient: true, HasNoNewPrivs: true, NoNewPrivs: true, UID: 1001},
		"gvisor-2026-root.status": {
			Inheritable: gvisorAll, Permitted: gvisorAll, Effective: gvisorAll, Bounding: gvisorAll, Ambient: gvisorAll,
			HasAmbient: true, HasNoNewPrivs: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := probe.Parse(recorded(t, name))
			if err != nil || got != want {
				t.Errorf("Parse = %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestParseMasksAreExactTo64Bits(t *testing.T) {
	got, err := probe.Parse(status(zero, zero, zero, full, "8000000000000001", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Bounding != 1<<64-1 || got.Ambient != 1<<63+1 {
		t.Errorf("Bounding, Ambient = %x, %x; want every bit, and the first and the last", got.Bounding, got.Ambient)
	}
	if got.Seccomp != 2 || got.UID != 1001 {
		t.Errorf("Seccomp, UID = %d, %d; want 2, 1001", got.Seccomp, got.UID)
	}
}

func TestParseRefuses(t *testing.T) {
	good := status(zero, zero, zero, zero, zero, "1")
	for _, c := range []struct{ sentence, text, want string }{
		{"nothing at all", "", "carries no CapInh line"},
		{"something else", "<html><body>502 Bad Gateway</body></html>", "carries no CapInh line"},
		{"the first mask is missing", withLine(good, "CapInh", ""), "carries no CapInh line"},
		{"the second mask is missing", withLine(good, "CapPrm", ""), "carries no CapPrm line"},
		{"the third mask is missing", withLine(good, "CapEff", ""), "carries no CapEff line"},
		{"the fourth mask is missing", withLine(good, "CapBnd", ""), "carries no CapBnd line"},
		{"a mask is a word", withLine(good, "CapEff", "CapEff:\tnone\n"), `"none", not a bare hexadecimal mask`},
		{"a mask has a prefix", withLine(good, "CapEff", "CapEff:\t0x0\n"), `"0x0", not a bare hexadecimal mask`},
		{"a mask is empty", withLine(good, "CapEff", "CapEff:\n"), `"", not a bare hexadecimal mask`},
		{"a mask has a sign", withLine(good, "CapEff", "CapEff:\t+0\n"), "not a bare hexadecimal mask"},
		{"a mask has more than 64 bits", withLine(good, "CapEff", "CapEff:\t1"+zero+"\n"), "not a bare hexadecimal mask"},
		{"an optional mask is a word", withLine(good, "CapAmb", "CapAmb:\tx\n"), "CapAmb is \"x\""},
		{"the flag is a word", withLine(good, "NoNewPrivs", "NoNewPrivs:\tyes\n"), `NoNewPrivs is "yes"`},
		{"the flag is neither", withLine(good, "NoNewPrivs", "NoNewPrivs:\t2\n"), `NoNewPrivs is "2"`},
		{"the flag is set twice over", withLine(good, "NoNewPrivs", "NoNewPrivs:\t11\n"), `NoNewPrivs is "11"`},
		{"a mask is there twice", good + "CapEff:\t" + zero + "\n", "more than one CapEff line"},
		{"a mask is there twice with other blanks", good + "  CapEff : " + zero + "\n", "more than one CapEff line"},
		{"the flag is there twice", "NoNewPrivs:\t1\n" + good, "more than one NoNewPrivs line"},
		{"an optional line is there twice", good + "CapAmb:\t" + zero + "\n", "more than one CapAmb line"},
		{"seccomp is a word", withLine(good, "Seccomp", "Seccomp:\ton\n"), `Seccomp is "on"`},
		{"three users", withLine(good, "Uid", "Uid:\t1 2 3\n"), "not four numbers"},
		{"a user below zero", withLine(good, "Uid", "Uid:\t1 -2 3 4\n"), "not four numbers"},
		{"a line that never ends is clipped in the message", withLine(good, "CapEff", "CapEff:\t"+strings.Repeat("é", 50)+"\n"),
			`"` + strings.Repeat("é", 40) + `"…`},
		{"control characters are escaped in the message", withLine(good, "CapEff", "CapEff:\t\x1b[2J\n"), `"\x1b[2J"`},
		{"one byte too long", good + "x:" + strings.Repeat("x", 64<<10-len(good)-1), "65537 bytes, more than 65536"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			got, err := probe.Parse(c.text)
			e, ok := errors.AsType[*probe.Error](err)
			if !ok || e.Reason != probe.ReasonUnreadable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse = %+v, %v; want unreadable-output with %q", got, err, c.want)
			}
		})
	}
}

func TestParseAcceptsTheLongestText(t *testing.T) {
	good := status(zero, zero, zero, zero, zero, "1")
	if _, err := probe.Parse(good + strings.Repeat("x", 64<<10-len(good))); err != nil {
		t.Errorf("Parse of exactly 64 KiB: %v", err)
	}
}

func TestPrivileged(t *testing.T) {
	for _, c := range []struct {
		sentence string
		text     string
		want     []string
	}{
		{"no capability anywhere and no way to one", status(zero, zero, zero, zero, zero, "1"), nil},
		{"a full bounding set with nothing in effect", status(zero, zero, zero, "000001ffffffffff", zero, "1"), []string{"CapBnd=1ffffffffff"}},
		{"one inheritable capability", status("0000000000000400", zero, zero, zero, zero, "1"), []string{"CapInh=400"}},
		{"one permitted capability", status(zero, "0000000000000001", zero, zero, zero, "1"), []string{"CapPrm=1"}},
		{"one effective capability", status(zero, zero, "0000000000000002", zero, zero, "1"), []string{"CapEff=2"}},
		{"one ambient capability", status(zero, zero, zero, zero, "00000000000000AB", "1"), []string{"CapAmb=ab"}},
		{"a set-uid program would raise it", status(zero, zero, zero, zero, zero, "0"), []string{"NoNewPrivs=0"}},
		{"all of them at once", status("1", "2", "3", full, "5", "0"),
			[]string{"CapInh=1", "CapPrm=2", "CapEff=3", "CapBnd=ffffffffffffffff", "CapAmb=5", "NoNewPrivs=0"}},
		{"a kernel that does not say", withLine(status(zero, zero, zero, zero, zero, "1"), "NoNewPrivs", ""), []string{"NoNewPrivs=absent"}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			s, err := probe.Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Privileged(); !slices.Equal(got, c.want) {
				t.Errorf("Privileged = %q, want %q", got, c.want)
			}
		})
	}
}

// A text that Parse accepts must come out the same when it is printed again
// from what Parse understood, so nothing is judged that was not read.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"linux-confined.status", "linux-root.status", "gvisor-2022-confined.status", "gvisor-2026-root.status"} {
		f.Add(recorded(f, name))
	}
	f.Add("")
	f.Add("CapInh:0\nCapPrm:0\nCapEff:0\nCapBnd:0\nNoNewPrivs:1\nNoNewPrivs:1\n")
	f.Add("CapInh: 0x1\nCapPrm: -1\nCapEff: \nCapBnd: 11111111111111111\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := probe.Parse(text)
		if err != nil {
			e, ok := errors.AsType[*probe.Error](err)
			if !ok || e.Reason != probe.ReasonUnreadable || len(err.Error()) > 1000 {
				t.Fatalf("Parse(%q) = %v; want a short unreadable-output", text, err)
			}
			return
		}
		again := fmt.Sprintf("CapInh:\t%016x\nCapPrm:\t%016x\nCapEff:\t%016x\nCapBnd:\t%016x\n", s.Inheritable, s.Permitted, s.Effective, s.Bounding)
		if s.HasAmbient {
			again += fmt.Sprintf("CapAmb:\t%016x\n", s.Ambient)
		}
		if s.HasNoNewPrivs {
			again += fmt.Sprintf("NoNewPrivs:\t%d\n", map[bool]int{true: 1}[s.NoNewPrivs])
		}
		if s.Seccomp >= 0 {
			again += fmt.Sprintf("Seccomp:\t%d\n", s.Seccomp)
		}
		if s.UID >= 0 {
			again += fmt.Sprintf("Uid:\t0\t%d\t0\t0\n", s.UID)
		}
		if s2, err := probe.Parse(again); err != nil || s2 != s {
			t.Fatalf("Parse(%q) = %+v\nprinted again: %q = %+v, %v", text, s, again, s2, err)
		}
		admitted := s.Inheritable|s.Permitted|s.Effective|s.Bounding|s.Ambient == 0 && s.NoNewPrivs
		if got := s.Privileged(); (len(got) == 0) != admitted {
			t.Fatalf("Privileged of %+v = %q", s, got)
		}
	})
}
