package k8s_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandlot-go/sandlot/k8s"
)

// prints is everything that formatting shows of a value.
func prints(vs ...any) string {
	var b strings.Builder
	for _, v := range vs {
		fmt.Fprintf(&b, "%v %+v %#v %s %q\n", v, v, v, v, v)
	}
	return b.String()
}

func TestNothingPrintsASecret(t *testing.T) {
	cert, key := pair(t, newAuthority(t, "ca").issue("host"))
	config, err := json.Marshal(map[string]any{
		"current-context": "c",
		"contexts":        []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "k", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "k", "cluster": map[string]any{
			"server": "https://127.0.0.1:1", "proxy-url": "http://user:" + secret + "@127.0.0.1:1",
		}}},
		"users": []any{map[string]any{"name": "u", "user": map[string]any{
			"token":                   secret,
			"client-certificate-data": base64.StdEncoding.EncodeToString(cert),
			"client-key-data":         base64.StdEncoding.EncodeToString(key),
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := k8s.ParseKubeconfig(config, "")
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, cfg)
	failed := get(t.Context(), client)
	if failed == nil {
		t.Fatal("nothing listens on port 1")
	}
	shown := prints(cfg, &cfg, client, *client, failed)
	for e := failed; e != nil; e = errors.Unwrap(e) {
		shown += prints(e)
	}
	for what, s := range map[string]string{
		"token":      secret,
		"key":        string(key[40:80]),
		"key's data": base64.StdEncoding.EncodeToString(key)[60:100],
		"key bytes":  strings.Trim(fmt.Sprintf("%#v", key[40:60]), "[]byte{}"),
	} {
		if strings.Contains(shown, s) {
			t.Errorf("the %s is printed", what)
		}
	}
	if want := "k8s.Client(https://127.0.0.1:1, default)"; client.String() != want {
		t.Errorf("a client prints as %q, want %q", client, want)
	}
}

// A server, a proxy or a webhook may say the token back to us, in any place.
func TestAnEchoedTokenIsCutOut(t *testing.T) {
	tricky := `q"uote\back/slash<` + secret
	for _, token := range []string{secret, tricky} {
		inJSON, _ := json.Marshal(map[string]any{
			"kind": "Status", "status": "Failure", "message": "you sent Bearer " + token, "reason": token,
			"details": map[string]any{"name": token, "group": token, "kind": token, "uid": token,
				"causes": []any{map[string]any{"reason": token, "message": token, "field": token}}},
		})
		other, _ := json.Marshal(map[string]any{"headers": []string{"Bearer " + token}})
		for why, handle := range map[string]func(int, http.ResponseWriter, *http.Request){
			"in a Status":   always(500, string(inJSON)),
			"in other JSON": always(500, string(other)),
			"in text": func(_ int, w http.ResponseWriter, _ *http.Request) {
				http.Error(w, strings.Repeat("x", 2040)+token, http.StatusBadGateway)
			},
			"in a page": func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				io.WriteString(w, token)
			},
			"in the content type": func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/"+token) },
			"in a redirect": func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://"+token+".evil.example/"+token)
				w.WriteHeader(307)
			},
			"in what is no HTTP":   func(_ int, w http.ResponseWriter, _ *http.Request) { cut(w, "HTTP/1.1 "+token+"\r\n\r\n") },
			"in the object's name": always(200, fmt.Sprintf(`{"kind":"SandboxClaim","metadata":{"name":%q}}`, token)),
			"in a 401":             always(401, string(inJSON)),
		} {
			t.Run(why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client, _ := serve(t, handle, func(c *k8s.Config) {
						c.Token = func(context.Context) (string, error) { return token, nil }
					})
					err := get(t.Context(), client)
					if err == nil {
						t.Fatal("it must fail")
					}
					shown := ""
					for e := err; e != nil; e = errors.Unwrap(e) {
						shown += prints(e)
					}
					if e, ok := asAPIError(err); ok && e.Details != nil {
						shown += prints(*e.Details)
					}
					if strings.Contains(shown, secret) {
						t.Errorf("the token is in %s", shown)
					}
				})
			})
		}
		synctest.Test(t, func(t *testing.T) {
			var warned []k8s.Warning
			client, _ := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Warning", fmt.Sprintf(`299 - %q`, "you sent "+token))
				reply(w, 200, claim("a"))
			}, func(c *k8s.Config) {
				c.Token = func(context.Context) (string, error) { return token, nil }
				c.Warning = func(w k8s.Warning) { warned = append(warned, w) }
			})
			if err := get(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			if s := prints(warned); strings.Contains(s, secret) || !strings.Contains(s, "you sent [redacted]") {
				t.Errorf("the token is in %s", s)
			}
		})
	}
}

func TestWhatAnErrorRepeatsIsBoundedAndOnOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, always(500, strings.Repeat("\x1b[2J\n", 1<<20)))
		err := get(t.Context(), client)
		if n := len(err.Error()); n > 3<<10 || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("the text has %d bytes: %.100q", n, err)
		}
		long, _ := json.Marshal(strings.Repeat("word\n", 10000))
		client, _ = serve(t, always(500, `{"kind":"Status","status":"Failure","message":`+string(long)+`}`))
		err = get(t.Context(), client)
		e := apiError(t, err, k8s.ServerError)
		if n := len(err.Error()); n > 3<<10 || strings.Contains(err.Error(), "\n") {
			t.Errorf("the text has %d bytes: %.100q", n, err)
		}
		if len(e.Message) != 50000 {
			t.Errorf("Message has %d bytes, want the server's words whole", len(e.Message))
		}
	})
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		" a\n":          "a",
		"a\tb\r\nc":     `a\tb\r\nc`,
		"\x1b[0m\x00":   `\x1b[0m\x00`,
		"a\u202eb":      `a\u202eb`,
		"é☕":            "é☕",
		"\xff\xfe":      `\xff\xfe`,
		`C:\dir "q"`:    `C:\dir "q"`,
		"\u00a0x\u2028": `x`,
		"x\u2028y":      `x\u2028y`,
	} {
		if got := k8s.Printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	const limit = 2 << 10
	if got := k8s.Printable(strings.Repeat("x", limit)); len(got) != limit {
		t.Errorf("exactly the limit became %d bytes", len(got))
	}
	if got := k8s.Printable(strings.Repeat("x", limit+1)); got != strings.Repeat("x", limit)+"... (2049 bytes in all)" {
		t.Errorf("one byte over the limit ends in %q", got[limit-3:])
	}
}
