package k8s_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
)

func TestParseObjectTakesOneObjectAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		why, in string
		ok      bool
	}{
		{"an object", `{"a":1}`, true},
		{"an empty object", `{}`, true},
		{"blanks around it", " \n{}\n ", true},
		{"nothing", ``, false},
		{"blanks alone", " \n", false},
		{"null", `null`, false},
		{"an array", `[{}]`, false},
		{"a string", `"{}"`, false},
		{"a second object", `{}{}`, false},
		{"a dangling brace", `{}}`, false},
		{"half an object", `{"a":`, false},
		{"a page", `<html>502</html>`, false},
	} {
		o, err := k8s.ParseObject([]byte(c.in))
		if (err == nil) != c.ok || (o != nil) != c.ok {
			t.Errorf("%s: ParseObject(%q) = %v, %v", c.why, c.in, o, err)
		}
	}
}

func TestNumbersStayExact(t *testing.T) {
	o := parse(t, `{"metadata":{"generation":9007199254740993},"f":1.10,"big":92233720368547758080}`)
	if got := o.Generation(); got != 9007199254740993 {
		t.Errorf("generation = %d, want 9007199254740993", got)
	}
	if got := o.Field("f"); got != json.Number("1.10") {
		t.Errorf("f = %#v, want json.Number 1.10", got)
	}
	if _, ok := o.Int("f"); ok {
		t.Error("1.10 is no whole number")
	}
	if _, ok := o.Int("big"); ok {
		t.Error("a number over 64 bits is no int64")
	}
	b, err := json.Marshal(o)
	if want := `{"big":92233720368547758080,"f":1.10,"metadata":{"generation":9007199254740993}}`; err != nil || string(b) != want {
		t.Errorf("written again it is %s, %v, want %s", b, err, want)
	}
}

func TestAccessorsTakeAnyShape(t *testing.T) {
	var none k8s.Object
	written := k8s.Object{ // as Go code writes objects, not as a decoder does
		"metadata": k8s.Object{"name": "n", "labels": map[string]string{"a": "b"}, "generation": 3},
		"spec":     map[string]any{"list": []string{"x"}, "objects": []k8s.Object{{"k": "v"}}, "on": true, "n": int64(5)},
	}
	decoded := parse(t, `{"metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"7","labels":{"a":"b","bad":1},
		"annotations":null,"deletionTimestamp":null},"spec":"text","list":[1,"x"]}`)
	for _, c := range []struct {
		why       string
		got, want any
	}{
		{"nil object", none.Text("a", "b"), ""},
		{"nil object as a whole", none.Field(), nil},
		{"map of nil object", none.Map("a"), k8s.Object(nil)},
		{"whole object", decoded.Map().Name(), "n"},
		{"name", decoded.Name(), "n"},
		{"namespace", decoded.Namespace(), "s"},
		{"uid", decoded.UID(), "u"},
		{"resource version", decoded.ResourceVersion(), "7"},
		{"labels without what is no string", decoded.Labels(), map[string]string{"a": "b"}},
		{"null annotations", decoded.Annotations(), map[string]string(nil)},
		{"path through a string", decoded.Field("spec", "a", "b"), nil},
		{"text that is an object", decoded.Text("metadata"), ""},
		{"object that is a text", decoded.Map("spec"), k8s.Object(nil)},
		{"list that is a text", decoded.List("spec"), []any(nil)},
		{"list", len(decoded.List("list")), 2},
		{"null deletion timestamp", decoded.Deleting(), false},
		{"absent generation", decoded.Generation(), int64(0)},
		{"written name", written.Name(), "n"},
		{"written labels", written.Labels(), map[string]string{"a": "b"}},
		{"written label by path", written.Text("metadata", "labels", "a"), "b"},
		{"written generation", written.Generation(), int64(3)},
		{"written strings", written.List("spec", "list"), []any{"x"}},
		{"written objects", written.List("spec", "objects")[0].(k8s.Object).Text("k"), "v"},
		{"absent list of a written object", written.List("spec", "none"), []any(nil)},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.why, c.got, c.want)
		}
	}
	if v, ok := written.Bool("spec", "on"); !v || !ok {
		t.Errorf("written bool = %v, %v", v, ok)
	}
	if _, ok := decoded.Bool("spec"); ok {
		t.Error("a text is no bool")
	}
	if v, ok := written.Int("spec", "n"); v != 5 || !ok {
		t.Errorf("written int = %v, %v", v, ok)
	}
}

func TestDeletingIsAnyTimestampButNull(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`:             false,
		`{"metadata":7}`: false,
		`{"metadata":{"deletionTimestamp":null}}`:                   false,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`: true,
		`{"metadata":{"deletionTimestamp":1}}`:                      true,
	} {
		if got := parse(t, in).Deleting(); got != want {
			t.Errorf("%s: Deleting = %v, want %v", in, got, want)
		}
	}
}

func TestConditionsOfAnyShape(t *testing.T) {
	ready := func(c string) string { return `{"status":{"conditions":` + c + `}}` }
	for _, c := range []struct {
		why, in string
		found   bool
		want    k8s.Condition
	}{
		{"none at all", `{}`, false, k8s.Condition{}},
		{"a Status, whose status is a text", `{"kind":"Status","status":"Failure"}`, false, k8s.Condition{}},
		{"conditions that are an object", ready(`{}`), false, k8s.Condition{}},
		{"entries that are no objects", ready(`[null,1,"Ready",[]]`), false, k8s.Condition{}},
		{"other types", ready(`[{"type":"Finished","status":"True"}]`), false, k8s.Condition{}},
		{"after entries that are broken", ready(`[7,{"type":1},{"type":"Ready","status":"True"}]`), true,
			k8s.Condition{Type: "Ready", Status: "True"}},
		{"with all fields", ready(`[{"type":"Ready","status":"False","reason":"R","message":"M","observedGeneration":2}]`), true,
			k8s.Condition{Type: "Ready", Status: "False", Reason: "R", Message: "M", ObservedGeneration: 2, HasGeneration: true}},
		{"with fields of other types", ready(`[{"type":"Ready","status":true,"reason":1,"observedGeneration":"2"}]`), true,
			k8s.Condition{Type: "Ready"}},
		{"twice: the first", ready(`[{"type":"Ready","status":"Unknown"},{"type":"Ready","status":"True"}]`), true,
			k8s.Condition{Type: "Ready", Status: "Unknown"}},
	} {
		got, found := parse(t, c.in).Condition("Ready")
		if found != c.found || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.why, got, found, c.want, c.found)
		}
	}
}

func TestConditionIsTrueOnlyIfItSaysTrue(t *testing.T) {
	for status, want := range map[string][2]bool{"True": {true, false}, "False": {false, true}, "Unknown": {}, "true": {}, "": {}} {
		c := k8s.Condition{Status: status}
		if got := [2]bool{c.True(), c.False()}; got != want {
			t.Errorf("status %q: True, False = %v, want %v", status, got, want)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	o := k8s.Object{
		"decoded": parse(t, `{"a":{"b":[{"c":1}]},"n":null}`),
		"labels":  map[string]string{"k": "v"},
		"strings": []string{"x"},
		"objects": []k8s.Object{{"k": "v"}},
		"maps":    []map[string]any{{"k": "v"}},
		"nothing": map[string]any(nil),
	}
	c := o.Clone()
	if !reflect.DeepEqual(o, c) {
		t.Fatalf("clone differs:\n got %#v\nwant %#v", c, o)
	}
	before := fmt.Sprintf("%#v", o)
	c.Map("decoded", "a").List("b")[0].(map[string]any)["c"] = 2
	c["labels"].(map[string]string)["k"] = "changed"
	c["strings"].([]string)[0] = "changed"
	c["objects"].([]k8s.Object)[0]["k"] = "changed"
	c["maps"].([]map[string]any)[0]["k"] = "changed"
	delete(c, "nothing")
	if after := fmt.Sprintf("%#v", o); after != before {
		t.Errorf("a change of the clone reached the original:\n got %s\nwant %s", after, before)
	}
	if k8s.Object(nil).Clone() != nil {
		t.Error("the clone of nil is nil")
	}
}

func TestStringMapIsTheCallersOwn(t *testing.T) {
	o := parse(t, `{"metadata":{"labels":{"a":"b"}}}`)
	maps.Copy(o.Labels(), map[string]string{"a": "changed"})
	if got := o.Labels()["a"]; got != "b" {
		t.Errorf("label a = %q, want b", got)
	}
}

func FuzzParseObject(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1e400}]}}`,
		`{"metadata":{"labels":{"a":1},"deletionTimestamp":{}},"status":"Failure"}`, `[[[[[[`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := k8s.ParseObject(data)
		if err != nil {
			return
		}
		o.Condition("Ready")
		o.Generation()
		o.Deleting()
		o.Labels()
		b, err := json.Marshal(o.Clone())
		if err != nil {
			t.Fatalf("what was parsed cannot be written: %v", err)
		}
		again, err := k8s.ParseObject(b)
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Fatalf("read, written and read again: got %#v, %v, want %#v", again, err, o)
		}
	})
}

func parse(t testing.TB, s string) k8s.Object {
	t.Helper()
	o, err := k8s.ParseObject([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
