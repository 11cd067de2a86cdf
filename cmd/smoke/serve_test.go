package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
)

// served starts "smoke sim" and returns what it printed, by name, and a function
// that interrupts it and returns its exit code.
func served(t *testing.T, args ...string) (lines map[string]string, stop func() int) {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	stdout, stderr := newLockedBuffer(), newLockedBuffer()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, streams{neverEnding{t}, stdout, stderr, os.Environ()}, append([]string{"sim"}, args...))
	}()
	stop = func() int {
		interrupt(errors.New("interrupt signal received"))
		code := <-ended
		ended <- code
		return code
	}
	t.Cleanup(func() { stop() })
	lines = map[string]string{}
	for line := range strings.Lines(stdout.await(t, "pool: ")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		lines[name] = value
	}
	return lines, stop
}

// Another program needs nothing but what "smoke sim" prints.
func TestSimServesOtherPrograms(t *testing.T) {
	t.Parallel()
	lines, stop := served(t, "-listen", "127.0.0.1:0")
	for _, name := range []string{"server", "ca", "token-file", "namespace", "template", "pool"} {
		if lines[name] == "" {
			t.Errorf("it does not print its %s: %q", name, lines)
		}
	}
	flags := []string{"-server", lines["server"], "-ca", lines["ca"], "-token-file", lines["token-file"], "-file-bytes", "4000"}

	// The same cluster by a kubeconfig, with its own token and with another.
	kubeconfig := kubeconfigOf(t, lines)
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(strings.Replace(kubeconfig, `"token"`, `"no-token"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range append(together(t,
		flags,
		append(flags[:len(flags):len(flags)], "-direct", "-namespace", lines["namespace"]),
		[]string{"-kubeconfig-json", path, "-token-cmd", "cat " + lines["token-file"], "-file-bytes", "4000"},
	), smokeWith(t.Context(), strings.NewReader(kubeconfig), nil, "-kubeconfig-json", "-", "-file-bytes", "4000")) {
		r.expect(t, exitOK, "18 of 18 steps ok", lines["server"])
	}

	if info, err := os.Stat(lines["token-file"]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: mode %v, %v; want one that nobody else reads", info.Mode(), err)
	}
	if code := stop(); code != exitOK {
		t.Errorf("interrupted, it exits %d, want 0", code)
	}
	if _, err := os.Stat(filepath.Dir(lines["ca"])); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its files are still there: %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(lines["server"], "https://")); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}

func kubeconfigOf(t *testing.T, lines map[string]string) string {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(lines[name])
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	type object = map[string]any
	data, err := json.Marshal(object{
		"kind": "Config", "apiVersion": "v1", "current-context": "c",
		"contexts": []any{object{"name": "c", "context": object{"cluster": "k", "user": "u", "namespace": lines["namespace"]}}},
		"clusters": []any{object{"name": "k", "cluster": object{"server": lines["server"], "certificate-authority-data": base64.StdEncoding.EncodeToString(read("ca"))}}},
		"users":    []any{object{"name": "u", "user": object{"token": strings.TrimSpace(string(read("token-file")))}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// kubectl is asked with the very arguments that are documented; what it says
// when it fails is shown.
func TestRunWithKubectl(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	script := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cluster, flags := serve(t, sim.Config{})
	config := kubeconfigOf(t, map[string]string{"server": flags[1], "ca": flags[3], "token-file": flags[5], "namespace": cluster.Namespace()})
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	script(`[ "$*" = "config view --raw --minify -o json" ] && exec cat ` + folder + "/config.json")
	r := smoke(t, "-kubectl", "-file-bytes", "4000")
	r.expect(t, exitOK, "18 of 18 steps ok", "kubectl's current cluster", flags[1])
	if strings.Contains(r.stdout, cluster.Token()) {
		t.Errorf("the output shows the token\n%v", r)
	}
	script("echo current-context must exist >&2; exit 1")
	smoke(t, "-kubectl").expect(t, exitFailed, "FAILED at connect: configuration", "current-context must exist")
	script("echo apiVersion: v1")
	smoke(t, "-kubectl").expect(t, exitFailed, "is not JSON")
}

func TestSimRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		code  int
		words string
	}{
		{[]string{"-listen", "6443"}, exitUsage, "-listen"},
		{[]string{"-namespace", "A"}, exitUsage, "-namespace"},
		{[]string{"extra"}, exitUsage, "extra"},
		{[]string{"-pool", "p"}, exitUsage, "-pool"},
		{[]string{"-listen", "192.0.2.1:1"}, exitFailed, "-listen"},
	} {
		smoke(t, append([]string{"sim"}, c.args...)...).expect(t, c.code, c.words)
	}
}

func TestNamesOf(t *testing.T) {
	for _, c := range []struct {
		asked, bound, address, host string
	}{
		{"127.0.0.1:0", "127.0.0.1:41000", "127.0.0.1:41000", "127.0.0.1"},
		{"localhost:7", "127.0.0.1:7", "localhost:7", "localhost"},
		{":7", "[::]:7", "127.0.0.1:7", "127.0.0.1"},
		{"0.0.0.0:7", "0.0.0.0:7", "127.0.0.1:7", "localhost"},
		{"[::]:7", "[::]:7", "[::1]:7", "::1"},
		{"[::1]:0", "[::1]:9", "[::1]:9", "::1"},
	} {
		bound, err := net.ResolveTCPAddr("tcp", c.bound)
		if err != nil {
			t.Fatal(err)
		}
		address, hosts := namesOf(c.asked, bound)
		if address != c.address || !strings.Contains(strings.Join(hosts, " "), c.host) {
			t.Errorf("namesOf(%q, %s) = %s, %q; want %s and %s", c.asked, c.bound, address, hosts, c.address, c.host)
		}
	}
}
