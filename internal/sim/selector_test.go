package sim_test

import (
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
)

func TestSelector(t *testing.T) {
	set := map[string]string{"app": "web", "tier": "front", "n": "5", "empty": "", "example.com/x": "y"}
	for _, tt := range []struct {
		selector string
		want     bool
		err      string
	}{
		{"", true, ""},
		{"   ", true, ""},
		{"app", true, ""},
		{"nope", false, ""},
		{"!nope", true, ""},
		{"! nope", true, ""},
		{"!app", false, ""},
		{"app=web", true, ""},
		{"app = web", true, ""},
		{"app==web", true, ""},
		{"app=db", false, ""},
		{"app!=db", true, ""},
		{"app!=web", false, ""},
		{"nope!=x", true, ""},
		{"empty=", true, ""},
		{"app=", false, ""},
		{"empty=,app=web", true, ""},
		{"example.com/x=y", true, ""},
		{"app in (web,db)", true, ""},
		{"app in ( web , db )", true, ""},
		{"app in (db)", false, ""},
		{"nope in (db)", false, ""},
		{"app notin (db)", true, ""},
		{"app notin (web)", false, ""},
		{"nope notin (web)", true, ""},
		{"empty in ()", true, ""},
		{"app in ()", false, ""},
		{"empty in (,)", true, ""},
		{"empty in (a,)", true, ""},
		{"empty in (,a)", true, ""},
		{"empty in (a,,b)", true, ""},
		{"app in (a,)", false, ""},
		{"n>4", true, ""},
		{"n > 5", false, ""},
		{"n<6", true, ""},
		{"app>4", false, ""},
		{"nope>4", false, ""},
		{"app=web,tier=front,n", true, ""},
		{"app=web,tier=back", false, ""},
		{"in in (in,notin)", false, ""},
		{"notin=in", false, ""},

		{"a===b", false, "unable to parse requirement: found '=', expected: identifier"},
		{"=", false, "found '=', expected: !, identifier, or 'end of string'"},
		{",", false, "found ',', expected: !, identifier, or 'end of string'"},
		{"app,", false, "found '', expected: identifier after ','"},
		{"app,,tier", false, "found ',', expected: identifier after ','"},
		{"app web", false, "unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, gt, lt"},
		{"app=web tier", false, "found 'tier', expected: ',' or 'end of string'"},
		{"!app=web", false, "found '=', expected: ',' or 'end of string'"},
		{"!", false, "unable to parse requirement: found '', expected: identifier"},
		{"app in web", false, "unable to parse requirement: found 'web' expected: '('"},
		{"app in (web", false, "unable to parse requirement: found '', expected: ',' or ')'"},
		{"app in (", false, "unable to parse requirement: found '', expected: ',', ')' or identifier"},
		{"app in (web db)", false, "unable to parse requirement: found 'db', expected: ',' or ')'"},
		{"app in (web,", false, "unable to parse requirement: found '', expected: ',', or identifier"},
		{"app in ((web))", false, "unable to parse requirement: found '(', expected: ',', ')' or identifier"},
		{"app=)", false, "unable to parse requirement: found ')', expected: identifier"},
		{"n>x", false, `unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer`},
		{"a/b/c", false, "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must consist of"},
		{"app=" + strings.Repeat("x", 64), false, "unable to parse requirement: values[0][app]: Invalid value"},
	} {
		t.Run(tt.selector, func(t *testing.T) {
			got, err := sim.Selects(tt.selector, set)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) {
				t.Fatalf("%q: error %v, want %q", tt.selector, err, tt.err)
			}
			if err == nil && got != tt.want {
				t.Errorf("%q on %v = %t, want %t", tt.selector, set, got, tt.want)
			}
		})
	}
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"", "a", "!a", "a=b,c!=d", "a in (b,c),d notin (,)", "n>1,m<2", "a===b", "x.example/y", "a in (b", "((("} {
		f.Add(s, "a", "b")
	}
	f.Fuzz(func(t *testing.T, s, k, v string) {
		got, err := sim.Selects(s, map[string]string{k: v})
		again, errAgain := sim.Selects(s, map[string]string{k: v})
		if got != again || (err == nil) != (errAgain == nil) {
			t.Errorf("%q: %t %v, then %t %v", s, got, err, again, errAgain)
		}
		if err == nil && s != "" && strings.Trim(s, " \t\r\n") == "" && !got {
			t.Errorf("%q is empty and does not select everything", s)
		}
	})
}
