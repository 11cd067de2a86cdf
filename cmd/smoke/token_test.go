package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// counting is a shell command that prints token-1 when it is first run, token-2
// the next time, and so on.
func counting(t *testing.T) (command, file string) {
	file = filepath.Join(t.TempDir(), "count")
	return fmt.Sprintf(`echo x >> %s; echo token-$(wc -l < %s)`, file, file), file
}

func runs(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "x")
}

// A command is run once for many requests, and again when the server has
// refused what it printed.
func TestTokenCommandIsAskedAgainWhenItsTokenIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token-2" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(401)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u"}}`)
	}))
	defer server.Close()
	command, file := counting(t)
	client, err := k8s.New(k8s.Config{Server: server.URL, Namespace: "ns", Token: tokenFromCommand(command, os.Environ())})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for i := range 3 {
		if _, err := client.Get(t.Context(), k8s.Pods, "a"); err != nil {
			t.Fatalf("Get %d: %v", i, err)
		}
	}
	if n := runs(t, file); n != 2 {
		t.Errorf("the command was run %d times for 3 requests, of which the first was refused; want 2", n)
	}
}

func TestTokenCommandFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		command  string
		words    string
	}{
		{"a command that is not there says so", "no-such-program-of-ours", "exit status 127|no-such-program-of-ours"},
		{"its standard error is shown", "echo log in first >&2; exit 3", "exit status 3|log in first"},
		{"a secret that it printed before it failed is not shown, even on standard error", "echo hunter2; echo bad token hunter2 >&2; exit 1", "bad token (what it printed)"},
		{"a command that prints nothing", "true", "printed nothing"},
		{"a command that prints for ever", "yes hunter2", "more than"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			token, err := tokenFromCommand(c.command, os.Environ())(t.Context())
			if err == nil {
				t.Fatalf("token %q and no error", token)
			}
			for word := range strings.SplitSeq(c.words, "|") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q shows the secret", err)
			}
		})
	}
}

func TestTokenCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	if token, err := tokenFromCommand("exec sleep 600", os.Environ())(ctx); !errors.Is(err, cause) {
		t.Errorf("got %q, %v; want %v", token, err, cause)
	}
}

func TestTokenFileIsReadEachTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	source := tokenFromFile(path)
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(" "+want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := source(t.Context()); got != want || err != nil {
			t.Errorf("token %q, %v; want %q", got, err, want)
		}
	}
	if err := os.WriteFile(path, make([]byte, maxTokenBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := source(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is too large: %v", err)
	}
	os.Remove(path)
	if _, err := source(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A kubeconfig whose user logs in by a plugin is refused, unless another source
// of the token is given.
func TestKubeconfigWithATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	kubeconfig := []byte(`{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u","namespace":"team"}}],
		"clusters":[{"name":"k","cluster":{"server":"https://k.example:6443"}}],
		"users":[{"name":"u","user":{"exec":{"command":"login"},"token":"hunter2"}}]}`)
	plain := target{kind: targetKubeconfig, kubeconfig: "f"}
	_, err := plain.parseKubeconfig(kubeconfig, ".")
	if err == nil || !strings.Contains(err.Error(), "exec") || !strings.Contains(err.Error(), "-token-cmd") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a plugin: %v; want a refusal that names exec and -token-cmd and shows no token", err)
	}
	plain.tokenCommand = "echo token"
	config, err := plain.parseKubeconfig(kubeconfig, ".")
	if err != nil || config.Server != "https://k.example:6443" || config.Namespace != "team" || config.Token != nil {
		t.Errorf("with -token-cmd: server %q, namespace %q, token %t, %v", config.Server, config.Namespace, config.Token != nil, err)
	}
}

func TestWithoutCredentialsLeavesWhatIsNoKubeconfig(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "apiVersion: v1", "[]", `{"users":5}`, `{"users":[1]}`, `{}`, "null"} {
		if got := string(withoutCredentials([]byte(text))); got != text {
			t.Errorf("withoutCredentials(%q) = %q", text, got)
		}
	}
	got := withoutCredentials([]byte(`{"users":[{"name":"u","user":{"token":"hunter2"}},null]}`))
	if !json.Valid(got) || strings.Contains(string(got), "hunter2") {
		t.Errorf("credentials are left in %s", got)
	}
}

func TestPrintableURLHidesCredentials(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"https://user:hunter2@a:6443/k8s?token=hunter2#hunter2": "https://a:6443/k8s",
		"https://a":       "https://a",
		"hunter2":         "(no URL)",
		"https://%zz":     "(no URL)",
		"hunter2:hunter2": "(no URL)",
	} {
		if got := printableURL(server); got != want {
			t.Errorf("printableURL(%q) = %q, want %q", server, got, want)
		}
	}
}
