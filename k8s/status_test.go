package k8s_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// A recorded answer of a real API server; see testdata/README.md.
type answer struct {
	Method string
	Path   string
	Code   int
	Header http.Header
	Body   []byte
}

func recorded(t testing.TB, name string) answer {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "answers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Request  struct{ Method, Path string }
		Response struct {
			Status  int
			Headers map[string]string
			Body    json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	a := answer{f.Request.Method, f.Request.Path, f.Response.Status, http.Header{}, f.Response.Body}
	var text string
	if json.Unmarshal(a.Body, &text) == nil {
		a.Body = []byte(text)
	} else { // on one line, as servers write it
		var line bytes.Buffer
		if err := json.Compact(&line, a.Body); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a.Body = line.Bytes()
	}
	for k, v := range f.Response.Headers {
		a.Header.Set(k, v)
	}
	return a
}

func TestEveryRecordedAnswerHasItsProvenance(t *testing.T) {
	readme, err := os.ReadFile("testdata/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/answers/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".json"); !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("testdata/README.md does not say where %s comes from", f)
		}
	}
}

const (
	claim3 = "namzu-task-00000000-0000-4000-8000-000000000003"
	claim9 = "namzu-task-00000000-0000-4000-8000-000000000009"
)

func TestRecordedAnswersAreClassified(t *testing.T) {
	for _, c := range []struct {
		file  string
		name  string // the object that was asked for, if any
		kind  k8s.Kind
		words string // of the server, that the text keeps
	}{
		{"401-bad-token", "", k8s.Unauthorized, "Unauthorized"},
		{"401-token-expired", "", k8s.Unauthorized, "Unauthorized"},
		{"403-anonymous", "", k8s.Forbidden, `User "system:anonymous" cannot list`},
		{"403-get", claim3, k8s.Forbidden, "sandbox-nobody"},
		{"403-create", "", k8s.Forbidden, "cannot create"},
		{"403-server-starting", "", k8s.Forbidden, `"sandbox-host" not found`},
		{"404-object", claim3, k8s.NotFound, "not found"},
		{"404-namespace-get", claim3, k8s.NotFound, "not found"},
		{"404-group", "x", k8s.NotServed, "404 page not found"},
		{"404-version", "x", k8s.NotServed, "404 page not found"},
		{"404-namespace-create", "", k8s.NotServed, `namespaces "nonamespace" not found`},
		{"400-namespace-mismatch", "", k8s.BadRequest, "does not match the namespace"},
		{"400-not-json", "", k8s.BadRequest, "json parse error"},
		{"400-unknown-field-strict", "", k8s.BadRequest, `unknown field "spec.nope"`},
		{"400-selector", "", k8s.BadRequest, "unable to parse requirement"},
		{"400-continue", "", k8s.BadRequest, "invalid continue token"},
		{"409-exists", "", k8s.Exists, "already exists"},
		{"409-stale-patch", claim9, k8s.Conflict, "the object has been modified"},
		{"409-delete-wrong-uid", "", k8s.Conflict, "cannot be fulfilled"},
		{"413-too-large", "", k8s.TooLarge, "limit is 3145728"},
		{"415-patch-json", claim9, k8s.Status, "unknown format"},
		{"422-no-warmPoolRef", "", k8s.Invalid, "spec.warmPoolRef: Required value"},
		{"422-patch", claim9, k8s.Invalid, "date-time"},
		{"422-patch-other-uid", claim9, k8s.Invalid, "field is immutable"},
		{"429-flow-control", "none", k8s.TooManyRequests, "Too many requests"},
		{"504-future-resourceVersion", "", k8s.ServerError, "Too large resource version"},
	} {
		t.Run(c.file, func(t *testing.T) {
			a := recorded(t, c.file)
			e := k8s.Classify(a.Method, k8s.SandboxClaims, c.name, a.Code, a.Header, a.Body, "", time.Now())
			if e.Kind != c.kind || e.Code != a.Code || e.Method != a.Method {
				t.Errorf("got %s %s %d, want %s %s %d", e.Kind, e.Method, e.Code, c.kind, a.Method, a.Code)
			}
			if want := a.Code < 500; e.NotApplied != want {
				t.Errorf("NotApplied = %v, want %v", e.NotApplied, want)
			}
			if text := e.Error(); !strings.Contains(text, c.words) || !strings.HasPrefix(text, "k8s: "+a.Method+" /p -> ") {
				t.Errorf("%q does not keep the server's words %q", text, c.words)
			}
		})
	}
}

func TestA404ProvesAbsenceOnlyIfItNamesTheObject(t *testing.T) {
	status := func(reason, details string) string {
		return `{"kind":"Status","status":"Failure","reason":"` + reason + `","details":` + details + `,"code":404}`
	}
	claims := `"group":"extensions.agents.x-k8s.io","kind":"sandboxclaims"`
	for _, c := range []struct {
		why, method, name, body string
		want                    k8s.Kind
	}{
		{"names the object", "GET", "c", status("NotFound", `{"name":"c",`+claims+`}`), k8s.NotFound},
		{"names the object of a DELETE", "DELETE", "c", status("NotFound", `{"name":"c",`+claims+`}`), k8s.NotFound},
		{"names its kind instead of the plural", "GET", "c", status("NotFound", `{"name":"c","kind":"SandboxClaim"}`), k8s.NotFound},
		{"names nothing but the name", "GET", "c", status("NotFound", `{"name":"c"}`), k8s.NotFound},
		{"names another object", "GET", "c", status("NotFound", `{"name":"d",`+claims+`}`), k8s.NotServed},
		{"names a namespace of the same name", "GET", "c", status("NotFound", `{"name":"c","kind":"namespaces"}`), k8s.NotServed},
		{"names the same in another group", "GET", "c", status("NotFound", `{"name":"c","group":"x.y","kind":"sandboxclaims"}`), k8s.NotServed},
		{"names the new object of a POST", "POST", "c", status("NotFound", `{"name":"c",`+claims+`}`), k8s.NotServed},
		{"is about a collection", "GET", "", status("NotFound", `{"name":"",`+claims+`}`), k8s.NotServed},
		{"has no details", "GET", "c", status("NotFound", `null`), k8s.NotServed},
		{"has another reason", "GET", "c", status("", `{"name":"c",`+claims+`}`), k8s.NotServed},
		{"is plain text", "GET", "c", "404 page not found\n", k8s.NotServed},
		{"is empty", "GET", "c", "", k8s.NotServed},
		{"is JSON of another kind", "GET", "c", `{"kind":"Error","reason":"NotFound","details":{"name":"c"}}`, k8s.NotServed},
		{"has details of another shape", "GET", "c", status("NotFound", `["c"]`), k8s.NotServed},
		{"has a status that is an object", "GET", "c", `{"kind":"Status","status":{},"reason":"NotFound","details":{"name":"c"}}`, k8s.NotServed},
	} {
		e := k8s.Classify(c.method, k8s.SandboxClaims, c.name, 404, nil, []byte(c.body), "", time.Now())
		if e.Kind != c.want || k8s.IsNotFound(e) != (c.want == k8s.NotFound) {
			t.Errorf("a 404 that %s: got %s, want %s", c.why, e.Kind, c.want)
		}
	}
}

func TestCodesWithoutAStatus(t *testing.T) {
	for _, c := range []struct {
		code       int
		kind       k8s.Kind
		notApplied bool
	}{
		{301, k8s.Redirect, false}, {307, k8s.Redirect, false},
		{400, k8s.BadRequest, true}, {401, k8s.Unauthorized, true}, {402, k8s.Status, false}, {403, k8s.Forbidden, true},
		{404, k8s.NotServed, true}, {405, k8s.MethodNotAllowed, true}, {408, k8s.Status, false}, {409, k8s.Conflict, true},
		{410, k8s.Gone, true}, {413, k8s.TooLarge, true}, {415, k8s.Status, true}, {422, k8s.Invalid, true},
		{429, k8s.TooManyRequests, true}, {500, k8s.ServerError, false}, {502, k8s.ServerError, false},
		{503, k8s.ServerError, false}, {504, k8s.ServerError, false}, {599, k8s.ServerError, false}, {600, k8s.Status, false},
	} {
		e := k8s.Classify("POST", k8s.SandboxClaims, "", c.code, nil, []byte("<html>\n<b>no</b>"), "", time.Now())
		if e.Kind != c.kind || e.Code != c.code || e.NotApplied != c.notApplied {
			t.Errorf("%d: got %s, code %d, NotApplied %v, want %s, NotApplied %v", c.code, e.Kind, e.Code, e.NotApplied, c.kind, c.notApplied)
		}
	}
}

func TestDetailsAreKept(t *testing.T) {
	a := recorded(t, "422-no-warmPoolRef")
	e := k8s.Classify(a.Method, k8s.SandboxClaims, "", a.Code, a.Header, a.Body, "", time.Now())
	want := &k8s.Details{
		Name: claim3, Group: "extensions.agents.x-k8s.io", Kind: "SandboxClaim",
		Causes: []k8s.Cause{{Reason: "FieldValueRequired", Message: "Required value", Field: "spec.warmPoolRef"}},
	}
	if !reflect.DeepEqual(e.Details, want) || e.Reason != "Invalid" {
		t.Errorf("got reason %q, details %+v, want Invalid, %+v", e.Reason, e.Details, want)
	}
}

func TestWhereRetryAfterComesFrom(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const inStatus = `{"kind":"Status","status":"Failure","details":{"retryAfterSeconds":7}}`
	header := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	for _, c := range []struct {
		why    string
		code   int
		header http.Header
		body   string
		want   time.Duration
		has    bool
	}{
		{"429 with seconds", 429, header("Retry-After", "2"), "", 2 * time.Second, true},
		{"503 with a date, by our clock", 503, header("Retry-After", "Fri, 02 Jan 2026 03:04:10 GMT"), "", 5 * time.Second, true},
		{"503 with a date, by the server's clock", 503,
			header("Retry-After", "Fri, 02 Jan 2026 04:00:10 GMT", "Date", "Fri, 02 Jan 2026 04:00:00 GMT"), "", 10 * time.Second, true},
		{"zero is a wait", 429, header("Retry-After", "0"), inStatus, 0, true},
		{"the Status where the header is missing", 500, nil, inStatus, 7 * time.Second, true},
		{"the Status where the header is nonsense", 503, header("Retry-After", "soon"), inStatus, 7 * time.Second, true},
		{"504 with seconds", 504, header("Retry-After", "1"), "", time.Second, true},
		{"not asked", 429, nil, "Too many requests", 0, false},
		{"a 400 has nothing to wait for", 400, header("Retry-After", "2"), inStatus, 0, false},
		{"nor has a 409", 409, header("Retry-After", "2"), "", 0, false},
		{"absurd seconds of a Status", 429, nil, `{"kind":"Status","status":"Failure","details":{"retryAfterSeconds":9223372036854775807}}`,
			(1<<31 - 1) * time.Second, true},
		{"negative seconds of a Status", 429, nil, `{"kind":"Status","status":"Failure","details":{"retryAfterSeconds":-7}}`, 0, false},
	} {
		e := k8s.Classify("GET", k8s.SandboxClaims, "c", c.code, c.header, []byte(c.body), "", now)
		if e.RetryAfter != c.want || e.HasRetryAfter != c.has {
			t.Errorf("%s: got %v, %v, want %v, %v", c.why, e.RetryAfter, e.HasRetryAfter, c.want, c.has)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(1994, 11, 6, 8, 49, 30, 0, time.UTC)
	for _, c := range []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"", 0, false}, {" ", 0, false}, {"x", 0, false}, {"-", 0, false}, {"1.5", 0, false}, {"1s", 0, false}, {"+1", 0, false},
		{"0", 0, true}, {"000", 0, true}, {" 3 ", 3 * time.Second, true}, {"-5", 0, true}, {"007", 7 * time.Second, true},
		{"2147483647", 2147483647 * time.Second, true}, {"2147483648", 2147483647 * time.Second, true},
		{strings.Repeat("9", 400), 2147483647 * time.Second, true},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 7 * time.Second, true},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 7 * time.Second, true},
		{"Sun Nov  6 08:49:37 1994", 7 * time.Second, true},
		{"Sun, 06 Nov 1994 08:49:00 GMT", 0, true},
		{"Sun, 06 Nov 1994 08:49:37 CET", 0, false},
	} {
		got, ok := k8s.ParseRetryAfter(c.in, now)
		if got != c.want || ok != c.ok {
			t.Errorf("%.40q: got %v, %v, want %v, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "Sun, 06 Nov 1994 08:49:37 GMT", "99999999999999999999", "Sun Nov  6 08:49:37 1994", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := k8s.ParseRetryAfter(s, time.Unix(0, 0))
		if d < 0 || d > (1<<31-1)*time.Second || !ok && d != 0 {
			t.Fatalf("%q: %v, %v", s, d, ok)
		}
	})
}

func FuzzClassify(f *testing.F) {
	for _, name := range []string{"404-object", "429-flow-control", "422-no-warmPoolRef", "504-future-resourceVersion"} {
		a := recorded(f, name)
		f.Add(a.Code, a.Body, a.Header.Get("Retry-After"), "secret-token")
	}
	f.Add(404, []byte(`{"kind":"Status","reason":"NotFound","details":{"name":{},"causes":[1,{}]}}`), "", "a")
	f.Fuzz(func(t *testing.T, code int, body []byte, after, secret string) {
		h := map[string][]string{"Retry-After": {after}, "Location": {after}}
		e := k8s.Classify("GET", k8s.SandboxClaims, "c", code, h, body, secret, time.Now())
		if e.Kind == "" || e.Code != code || e.RetryAfter < 0 {
			t.Fatalf("%+v", e)
		}
		text := e.Error()
		if len(text) > 16<<10 {
			t.Fatalf("the text has %d bytes", len(text))
		}
		if strings.ContainsAny(text, "\n\r\x00\x1b") {
			t.Fatalf("control characters in %q", text)
		}
		if len(secret) > 12 && !strings.Contains("[redacted]", secret) && strings.Contains(e.Message+e.Excerpt+e.Reason, secret) {
			t.Fatalf("the secret is in %q", text)
		}
	})
}
