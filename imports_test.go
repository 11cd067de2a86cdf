package sandlot_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sandlot-go/sandlot"

// anything is the row of a package that may import every other one.
var anything = []string{"..."}

// allowed says which packages of the module each package may import, besides
// the standard library. A package that the table does not name must not exist;
// a row may wait for its package.
//
// k8s and transport know nothing of each other, and a simulator that were built
// on the client would agree with the client's bugs.
var allowed = map[string][]string{
	"":                      {},
	"internal/jsontree":     {},
	"internal/uuid":         {},
	"k8s":                   {"internal/jsontree"},
	"transport/wire":        {"internal/jsontree"},
	"transport/wiretest":    {"transport/wire"},
	"transport":             {"transport/wire", "internal/jsontree", "internal/uuid"},
	"probe":                 {},
	"lease":                 {"k8s"},
	"policy":                {"k8s", "internal/jsontree"},
	"acquire":               {"k8s", "transport/wire", "transport", "probe", "lease", "policy", "internal/podbind", "internal/uuid"},
	"workspace":             {"k8s", "transport/wire", "transport", "probe", "lease", "policy", "internal/podbind", "internal/uuid"},
	"internal/podbind":      {"k8s"},
	"internal/memnet":       {},
	"internal/leak":         {}, // of tests
	"internal/guest":        {"transport/wire", "internal/uuid"},
	"internal/guest/guestd": {"internal/guest"},
	"internal/sim":          {"internal/guest", "internal/memnet", "internal/uuid"},
	"deploy":                {}, // manifests; only their tests are code
	"cmd/...":               anything,
}

// unreachable lists what a package must not reach even through the standard
// library: both are handed their bytes.
var unreachable = map[string][]string{
	"transport/wire": {"net", "net/http"},
	"probe":          {"net", "net/http"},
}

const (
	maxSourceLines = 350
	maxTestLines   = 500
)

// A source is one parsed Go file, whatever its build tags.
type source struct {
	file    string            // below the module's root, with slashes
	imports map[string]string // path to the name it has in the file; "" when not renamed
	sleeps  int               // calls of time.Sleep
	lines   int
}

func (s source) pkg() string {
	if dir := path.Dir(s.file); dir != "." {
		return dir
	}
	return ""
}

func (s source) test() bool { return strings.HasSuffix(s.file, "_test.go") }

// The sources are parsed here rather than by "go list": the test cache would
// serve an answer from before the import that broke the rule.
func TestSourcesKeepTheRules(t *testing.T) {
	sources, err := readSources(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 50 {
		t.Errorf("only %d Go files found; the walk is broken", len(sources))
	}
	for _, violation := range violations(sources, standardImports) {
		t.Error(violation)
	}
}

// violations returns a sentence for each rule that the sources break. standard
// returns what a package of the standard library imports.
func violations(sources []source, standard func(string) ([]string, error)) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	imports := map[string]map[string]bool{} // of the module's packages, without their tests
	bubbles := map[string]bool{}            // packages whose tests use bubbles, by helpers of their own perhaps
	for _, s := range sources {
		if _, bubble := s.imports["testing/synctest"]; bubble && s.test() {
			bubbles[s.pkg()] = true
		}
	}
	for _, s := range sources {
		pkg := s.pkg()
		row, named := rowOf(pkg)
		if !named {
			report("%s: package %q is not in the import table of this test", s.file, pkg)
		}
		limit := maxSourceLines
		if s.test() {
			limit = maxTestLines
		}
		if s.lines > limit {
			report("%s: %d lines, more than %d; one concept per file", s.file, s.lines, limit)
		}
		if main := strings.HasSuffix(s.file, "main_test.go"); s.test() && s.sleeps > 0 && (main || !bubbles[pkg]) {
			report("%s: time.Sleep in a test outside a bubble of testing/synctest", s.file)
		}
		for _, imported := range slices.Sorted(maps.Keys(s.imports)) {
			own, inModule := strings.CutPrefix(imported, module+"/")
			first, _, _ := strings.Cut(imported, "/")
			switch {
			case inModule && s.test():
			case inModule && !slices.Contains(row, own) && !slices.Equal(row, anything):
				report("%s: %s may not import %s", s.file, pkg, own)
			case inModule:
			case imported == module:
				report("%s: nothing imports the root, which holds no code", s.file)
			case imported == "github.com/google/go-cmp/cmp" && s.test():
			case strings.Contains(first, "."):
				report("%s: %s is neither the standard library nor ours", s.file, imported)
			}
			if !s.test() {
				if imports[pkg] == nil {
					imports[pkg] = map[string]bool{}
				}
				imports[pkg][imported] = true
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(unreachable)) {
		ways, err := reach(pkg, imports, standard)
		if err != nil {
			report("%s: %v", pkg, err)
		}
		for _, forbidden := range unreachable[pkg] {
			if way, ok := ways[forbidden]; ok {
				report("%s reaches %s: %s", pkg, forbidden, strings.Join(way, " -> "))
			}
		}
	}
	return found
}

// rowOf finds the row of a package: its own, or that of the closest parent
// whose row ends in "/...".
func rowOf(pkg string) (row []string, named bool) {
	if row, named = allowed[pkg]; named {
		return row, true
	}
	for dir := pkg; dir != "."; {
		dir = path.Dir(dir)
		if row, named = allowed[dir+"/..."]; named {
			return row, true
		}
	}
	return nil, false
}

// reach returns every package that pkg imports, directly or not, each with the
// way to it.
func reach(pkg string, imports map[string]map[string]bool, standard func(string) ([]string, error)) (map[string][]string, error) {
	start := module + "/" + pkg
	ways := map[string][]string{start: {start}}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		var next []string
		if own, ok := strings.CutPrefix(from, module+"/"); ok {
			next = slices.Sorted(maps.Keys(imports[own]))
		} else if from != "C" && from != "unsafe" {
			var err error
			if next, err = standard(from); err != nil {
				return nil, err
			}
		}
		for _, to := range next {
			if _, seen := ways[to]; !seen {
				ways[to] = append(slices.Clone(ways[from]), to)
				queue = append(queue, to)
			}
		}
	}
	return ways, nil
}

// standardImports reads a package of the standard library from its sources.
// What it vendors is left out: none of it leads back.
func standardImports(pkg string) ([]string, error) {
	p, err := build.Default.Import(pkg, "", 0)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(p.Imports, func(imported string) bool {
		first, _, _ := strings.Cut(imported, "/")
		return strings.Contains(first, ".")
	}), nil
}

func readSources(root fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		s, err := parseSource(file, text)
		if err != nil {
			return err
		}
		sources = append(sources, s)
		return nil
	})
	return sources, err
}

func parseSource(file string, text []byte) (source, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{file: filepath.ToSlash(file), imports: map[string]string{}, lines: bytes.Count(text, []byte("\n"))}
	clock := "time"
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		name := ""
		if spec.Name != nil {
			name = spec.Name.Name
		}
		s.imports[imported] = name
		if imported == "time" && name != "" {
			clock = name
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
			if x, ok := call.X.(*ast.Ident); ok && x.Name == clock {
				s.sleeps++
			}
		}
		return true
	})
	return s, nil
}
