package sandlot_test

import (
	"strings"
	"testing"
	"testing/fstest"
)

// The rules of imports_test.go, each broken once.
func TestRulesAreNoticed(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	long := func(lines int) *fstest.MapFile {
		return file("package x\n" + strings.Repeat("\n", lines-1))
	}
	for _, c := range []struct {
		sentence string
		files    fstest.MapFS
		want     []string // one violation with each of these; none at all when empty
	}{
		{"what the table allows", fstest.MapFS{
			"doc.go":               file("package sandlot"),
			"k8s/x.go":             file(`package k8s; import "net/http"; var _ http.Client`),
			"transport/x.go":       file(`package transport; import _ "github.com/sandlot-go/sandlot/transport/wire"`),
			"cmd/smoke/x.go":       file(`package main; import _ "github.com/sandlot-go/sandlot/acquire"`),
			"lease/x.go":           file(`package lease; import _ "github.com/sandlot-go/sandlot/k8s"`),
			"lease/x_test.go":      file(`package lease; import ("testing/synctest"; "time"); func f() { time.Sleep(1); synctest.Wait() }`),
			"probe/x_test.go":      file(`package probe; import ("net/http"; "github.com/google/go-cmp/cmp"; "github.com/sandlot-go/sandlot/internal/guest")`),
			"policy/y.go":          long(350),
			"policy/y_test.go":     long(500),
			"policy/testdata/x.go": file("this is no Go"),
			".git/x.go":            file("neither is this"),
		}, nil},
		{"a package that the table does not name", fstest.MapFS{
			"util/x.go": file("package util"),
		}, []string{`util/x.go: package "util" is not in the import table`}},
		{"below a package that it names", fstest.MapFS{
			"k8s/fake/x.go": file("package fake"),
		}, []string{`k8s/fake/x.go: package "k8s/fake" is not in the import table`}},
		{"an import that the table does not allow", fstest.MapFS{
			"k8s/x.go": file(`package k8s; import _ "github.com/sandlot-go/sandlot/transport"`),
		}, []string{"k8s/x.go: k8s may not import transport"}},
		{"the same behind a build tag", fstest.MapFS{
			"transport/x_windows.go": file("//go:build ignore\n\npackage transport\n\nimport _ \"github.com/sandlot-go/sandlot/k8s\"\n"),
		}, []string{"transport/x_windows.go: transport may not import k8s"}},
		{"a simulator that is built on the client", fstest.MapFS{
			"internal/sim/x.go": file(`package sim; import _ "github.com/sandlot-go/sandlot/k8s"`),
		}, []string{"internal/sim/x.go: internal/sim may not import k8s"}},
		{"a module that is not ours", fstest.MapFS{
			"k8s/x.go": file(`package k8s; import _ "k8s.io/client-go/rest"`),
		}, []string{"k8s/x.go: k8s.io/client-go/rest is neither the standard library nor ours"}},
		{"one that starts like ours", fstest.MapFS{
			"k8s/x.go": file(`package k8s; import _ "github.com/sandlot-go/sandlot2/x"`),
		}, []string{"k8s/x.go: github.com/sandlot-go/sandlot2/x is neither"}},
		{"go-cmp outside a test", fstest.MapFS{
			"k8s/x.go": file(`package k8s; import _ "github.com/google/go-cmp/cmp"`),
		}, []string{"k8s/x.go: github.com/google/go-cmp/cmp is neither"}},
		{"another module in a test", fstest.MapFS{
			"k8s/x_test.go": file(`package k8s; import _ "github.com/stretchr/testify/assert"`),
		}, []string{"k8s/x_test.go: github.com/stretchr/testify/assert is neither"}},
		{"the root", fstest.MapFS{
			"k8s/x.go": file(`package k8s; import _ "github.com/sandlot-go/sandlot"`),
		}, []string{"k8s/x.go: nothing imports the root"}},
		{"net/http reached from the codec by way of the standard library", fstest.MapFS{
			"transport/wire/x.go": file(`package wire; import _ "expvar"`),
		}, []string{"transport/wire reaches net:", "transport/wire reaches net/http: github.com/sandlot-go/sandlot/transport/wire -> expvar -> net/http"}},
		{"net/http reached from the probe by way of a package of ours", fstest.MapFS{
			"probe/x.go": file(`package probe; import _ "github.com/sandlot-go/sandlot/k8s"`),
			"k8s/x.go":   file(`package k8s; import _ "net/http"`),
		}, []string{"probe/x.go: probe may not import k8s", "probe reaches net:", "probe reaches net/http:"}},
		{"a test that sleeps on the real clock", fstest.MapFS{
			"k8s/x_test.go": file(`package k8s; import clock "time"; func f() { clock.Sleep(1) }`),
		}, []string{"k8s/x_test.go: time.Sleep in a test"}},
		{"a test that keeps a sleep for later", fstest.MapFS{
			"k8s/x_test.go": file(`package k8s; import "time"; var sleep = time.Sleep`),
		}, []string{"k8s/x_test.go: time.Sleep in a test"}},
		{"a source file that is too long", fstest.MapFS{"k8s/x.go": long(351)}, []string{"k8s/x.go: 351 lines, more than 350"}},
		{"a test file that is too long", fstest.MapFS{"k8s/x_test.go": long(501)}, []string{"k8s/x_test.go: 501 lines, more than 500"}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			sources, err := readSources(c.files)
			if err != nil {
				t.Fatal(err)
			}
			got := violations(sources, standardImports)
			if len(got) != len(c.want) {
				t.Fatalf("violations = %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("violation %d = %q, want %q", i, got[i], want)
				}
			}
		})
	}
}

func TestASourceThatDoesNotParseIsAnError(t *testing.T) {
	if _, err := readSources(fstest.MapFS{"k8s/x.go": {Data: []byte("package")}}); err == nil {
		t.Error("readSources accepts a file that is no Go")
	}
}
