package sim_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// TestMergePatch is the table of RFC 7386, appendix A, and a few more.
func TestMergePatch(t *testing.T) {
	for _, tt := range []struct{ doc, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"n":9007199254740993}`, `{}`, `{"n":9007199254740993}`},
	} {
		got, err := sim.MergePatch(tt.doc, tt.patch)
		if err != nil || !sameJSON(got, tt.want) {
			t.Errorf("%s with %s = %s, %v; want %s", tt.doc, tt.patch, got, err, tt.want)
		}
	}
}

// TestJSONPatch has the examples of RFC 6902, appendix A, among others.
func TestJSONPatch(t *testing.T) {
	for _, tt := range []struct{ name, doc, patch, want string }{
		{"add to an object", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"foo":"bar","baz":"qux"}`},
		{"add into a list", `{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{"add behind a list", `{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc"]}]`, `{"foo":["bar",["abc"]]}`},
		{"remove from an object", `{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{"remove from a list", `{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{"replace", `{"baz":"qux"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo"}`},
		{"replace in a list", `{"a":[1,2]}`, `[{"op":"replace","path":"/a/1","value":3}]`, `{"a":[1,3]}`},
		{"replace all", `{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{"move", `{"foo":{"bar":"baz","waldo":"fred"},"qux":{}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"thud":"fred"}}`},
		{"move in a list", `{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{"copy", `{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"replace","path":"/c/b","value":2}]`, `{"a":{"b":1},"c":{"b":2}}`},
		{"test and go on", `{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{"test for null where nothing is", `{}`, `[{"op":"test","path":"/a","value":null}]`, `{}`},
		{"escapes", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10},{"op":"remove","path":"/~1"}]`, `{"~1":10}`},

		{"test fails", `{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, "test failed"},
		{"test compares types", `{"/":9}`, `[{"op":"test","path":"/~1","value":"9"}]`, "test failed"},
		{"add below nothing", `{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, "no such path"},
		{"add far behind a list", `{"a":[]}`, `[{"op":"add","path":"/a/1","value":1}]`, "no such path"},
		{"a position with a leading zero", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, "no such path"},
		{"remove what is not there", `{}`, `[{"op":"remove","path":"/a"}]`, "no such path"},
		{"replace what is not there", `{}`, `[{"op":"replace","path":"/a","value":1}]`, "no such path"},
		{"move into itself", `{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, "itself"},
		{"add without a value", `{}`, `[{"op":"add","path":"/a"}]`, "no value"},
		{"an unknown operation", `{}`, `[{"op":"frobnicate","path":"/a"}]`, "unexpected kind"},
		{"a pointer without a slash", `{}`, `[{"op":"remove","path":"a"}]`, "slash"},
		{"not a list", `{}`, `{"op":"remove"}`, "cannot unmarshal object"},
		{"an operation that is no text", `{}`, `[{"op":1}]`, "cannot unmarshal number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sim.JSONPatch(tt.doc, tt.patch)
			if strings.HasPrefix(tt.want, "{") {
				if err != nil || !sameJSON(got, tt.want) {
					t.Errorf("%s with %s = %s, %v; want %s", tt.doc, tt.patch, got, err, tt.want)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s with %s = %s, %v; want an error with %q", tt.doc, tt.patch, got, err, tt.want)
			}
		})
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	dx, dy := json.NewDecoder(strings.NewReader(a)), json.NewDecoder(strings.NewReader(b))
	dx.UseNumber()
	dy.UseNumber()
	return dx.Decode(&x) == nil && dy.Decode(&y) == nil && reflect.DeepEqual(x, y)
}

func FuzzMergePatch(f *testing.F) {
	f.Add(`{"a":{"b":1}}`, `{"a":{"b":null,"c":[1]}}`)
	f.Add(`[1]`, `{"a":1}`)
	f.Add(`null`, `"x"`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		once, err := sim.MergePatch(doc, patch)
		if err != nil {
			return
		}
		twice, err := sim.MergePatch(once, patch)
		if err != nil || !sameJSON(once, twice) {
			t.Errorf("%s with %s: once %s, twice %s, %v", doc, patch, once, twice, err)
		}
	})
}

func FuzzJSONPatch(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, `[{"op":"add","path":"/a/-","value":3},{"op":"test","path":"/a/0","value":1}]`)
	f.Add(`{"a":1}`, `[{"op":"move","from":"/a","path":"/b"},{"op":"copy","from":"/b","path":"/~1"}]`)
	f.Add(`[]`, `[{"op":"remove","path":""}]`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		got, err := sim.JSONPatch(doc, patch)
		again, errAgain := sim.JSONPatch(doc, patch)
		if got != again || (err == nil) != (errAgain == nil) {
			t.Errorf("%s with %s: %s %v, then %s %v", doc, patch, got, err, again, errAgain)
		}
	})
}
