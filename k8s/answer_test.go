package k8s_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

func TestWarningsArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := recorded(t, "201-unknown-field")
		var got []k8s.Warning
		client, _ := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Warning", `299 - "second"`)
			w.Header().Add("Warning", a.Header.Get("Warning"))
			reply(w, a.Code, string(a.Body))
		}, func(c *k8s.Config) { c.Warning = func(w k8s.Warning) { got = append(got, w) } })
		if _, err := client.Create(t.Context(), k8s.SandboxClaims, k8s.Object{"metadata": k8s.Object{"name": claim3}}); err != nil {
			t.Fatal(err)
		}
		want := []k8s.Warning{
			{Method: "POST", Path: claimsPath, Code: 299, Agent: "-", Text: "second"},
			{Method: "POST", Path: claimsPath, Code: 299, Agent: "-", Text: `unknown field "spec.nope"`},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWarningHeaders(t *testing.T) {
	for _, c := range []struct {
		why  string
		in   []string
		want []string // texts
	}{
		{"one", []string{`299 - "a"`}, []string{"a"}},
		{"with a date", []string{`299 h:80 "a" "Sat, 25 Aug 2012 23:34:45 GMT"`}, []string{"a"}},
		{"two in one header", []string{`299 - "a, \"b\"" , 299 - "c"`}, []string{`a, "b"`, "c"}},
		{"two headers", []string{`299 - "a"`, `299 - "b"`}, []string{"a", "b"}},
		{"control characters", []string{"299 - \"a\x1b[0m\""}, []string{`a\x1b[0m`}},
		{"an empty text", []string{`299 - ""`}, []string{""}},
		{"no quotes", []string{`299 - a`}, nil},
		{"no end", []string{`299 - "a`}, nil},
		{"an escape at the end", []string{`299 - "a\`}, nil},
		{"no code", []string{`abc - "a"`, `29 - "a"`, `-99 - "a"`, ``}, nil},
		{"no agent", []string{`299`}, nil},
		{"what follows nonsense in one header", []string{`299 - a, 299 - "b"`, `299 - "c"`}, []string{"c"}},
	} {
		var got []string
		for _, w := range k8s.ParseWarnings(c.in) {
			got = append(got, w.Text)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
	many := k8s.ParseWarnings([]string{strings.Repeat(`299 - "a",`, 100), strings.Repeat(`299 - "a",`, 100)})
	if len(many) != 32 {
		t.Errorf("of 200 warnings %d were taken, want 32", len(many))
	}
}

func FuzzParseWarnings(f *testing.F) {
	for _, s := range []string{`299 - "a"`, `299 - "a" "b", 299 c "\"d"`, `"`, `299 - "\`, ` , ,`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, w := range k8s.ParseWarnings([]string{s}) {
			if w.Code < 100 || w.Code > 999 || len(w.Text) > 4<<10 || strings.ContainsAny(w.Text+w.Agent, "\n\r\x1b") {
				t.Fatalf("%+v", w)
			}
		}
	})
}

func TestTheServersClock(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	type sample struct{ sent, received, date float64 } // seconds; a date is whole
	for _, c := range []struct {
		why     string
		samples []sample
		want    time.Duration
		known   bool
	}{
		{"nothing heard", nil, 0, false},
		{"the same second", []sample{{0.2, 0.3, 0}}, 0, true},
		{"the end of the same second", []sample{{0.9, 0.95, 0}}, 0, true},
		{"the next second has just begun there", []sample{{0.99, 1.01, 1}}, 0, true},
		{"half a second ahead cannot be told at once", []sample{{0.1, 0.1, 0}}, 0, true},
		{"a minute ahead", []sample{{0.5, 0.5, 60}}, 60 * time.Second, true},
		{"a minute behind", []sample{{0.5, 0.5, -60}}, -60 * time.Second, true},
		{"a slow answer widens what is possible, so the middle is taken", []sample{{0, 1, 60}}, 60 * time.Second, true},
		{"an answer that took too long says nothing", []sample{{0, 2.1, 60}}, 0, false},
		{"nor one from before its question", []sample{{1, 0.5, 60}}, 0, false},
		{"more answers narrow it", []sample{{0, 0, 10}, {0.75, 0.75, 11}}, 10625 * time.Millisecond, true},
		{"half a second ahead can be told by two", []sample{{0.1, 0.1, 0}, {0.6, 0.6, 1}}, 650 * time.Millisecond, true},
		{"a clock that was set is believed", []sample{{0, 0, 60}, {1, 1, 1}}, 0, true},
	} {
		var clock k8s.Clock
		for _, s := range c.samples {
			clock.Observe(at(s.sent), at(s.received), at(s.date))
		}
		got, known := clock.Offset()
		if got.Round(time.Microsecond) != c.want || known != c.known {
			t.Errorf("%s: got %v, %v, want %v, %v", c.why, got, known, c.want, c.known)
		}
	}
}

func TestClockOffsetOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := 90 * time.Second
		client, _ := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			reply(w, 401, "") // any answer tells the time
		})
		if d, known := client.ClockOffset(); known || d != 0 {
			t.Errorf("before any answer: %v, %v", d, known)
		}
		get(t.Context(), client)
		if d, known := client.ClockOffset(); !known || d < ahead-time.Second || d > ahead+time.Second {
			t.Errorf("got %v, %v, want about %v", d, known, ahead)
		}
		other, err := client.In("other")
		if err != nil {
			t.Fatal(err)
		}
		if _, known := other.ClockOffset(); !known {
			t.Error("a client of another namespace talks to the same server")
		}
	})
}

func TestTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			pause(r, 3*time.Millisecond)
			reply(w, 404, string(recorded(t, "404-object").Body))
		})
		var outer, inner []k8s.RequestInfo
		ctx := k8s.WithTrace(t.Context(), &k8s.Trace{Request: func(i k8s.RequestInfo) { outer = append(outer, i) }})
		both := k8s.WithTrace(k8s.WithTrace(ctx, nil), &k8s.Trace{Request: func(i k8s.RequestInfo) { inner = append(inner, i) }})
		client.Get(both, k8s.SandboxClaims, claim3)
		client.Get(k8s.WithTrace(ctx, &k8s.Trace{}), k8s.SandboxClaims, claim3)
		want := k8s.RequestInfo{
			Method: "GET", Path: claimsPath + "/" + claim3, Code: 404, Kind: k8s.NotFound, Duration: 3 * time.Millisecond, Sent: 1,
		}
		if !reflect.DeepEqual(inner, []k8s.RequestInfo{want}) || !reflect.DeepEqual(outer, []k8s.RequestInfo{want, want}) {
			t.Errorf("the outer trace saw %+v,\nthe inner %+v,\nwant %+v twice and once", outer, inner, want)
		}
	})
}
