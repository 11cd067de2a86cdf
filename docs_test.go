package sandlot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What a program compares must be in the document that explains it.
func TestDocsNameWhatProgramsCompare(t *testing.T) {
	for _, c := range []struct{ doc, dir, constants string }{
		{"docs/guarantees.md", "acquire", `^(Stage|Reason|Leak)[A-Z]`},
		{"docs/guarantees.md", "probe", `^Reason[A-Z]`},
		{"docs/guarantees.md", "lease", `^Reason[A-Z]`},
		{"docs/policy.md", "policy", `^(Kind|Host|Fence)[A-Z]|^(Admits|Covers|Denies|DoesNotSelect|InvalidConfig|InvalidPerSandbox|InvalidPolicy|InvalidProfile|Isolates|MayAdmit|Mismatch|NarrowingUnsupported|NoCoveringPolicy|NoEnforcingPolicy|NotApplied|NotEgressScoped|NotEvaluable|NotIngressScoped|OpensAgentPort|Passes|PolicyNotEvaluable|PolicyWidensEgress|PortOpen|UnenforceablePolicy|WidensEgress|Within|WorkspacePerSandbox)$`},
		{"docs/protocol.md", "transport/wire", `^(Op|Feature|Code|State|Type)[A-Z]`},
	} {
		text, err := os.ReadFile(c.doc)
		if err != nil {
			t.Fatal(err)
		}
		values := constants(t, c.dir, regexp.MustCompile(c.constants))
		if len(values) == 0 {
			t.Errorf("%s has no constants like %s; this test looks for the wrong ones", c.dir, c.constants)
		}
		for name, value := range values {
			if !regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(value) + `\b`).Match(text) {
				t.Errorf("%s does not mention %q, the value of %s in %s", c.doc, value, name, c.dir)
			}
		}
	}
}

// constants returns the string constants of a package whose name matches.
func constants(t *testing.T, dir string, named *regexp.Regexp) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i >= len(spec.Values) || !named.MatchString(name.Name) {
					continue
				}
				if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if value, err := strconv.Unquote(literal.Value); err == nil {
						values[name.Name] = value
					}
				}
			}
			return true
		})
	}
	return values
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// Links between the documents lead somewhere.
func TestLinksOfDocsLead(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("docs/*.md = %v, %v", docs, err)
	}
	checked := 0
	for _, doc := range append(docs, "README.md", "testdata/fixtures/README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := doc
			if file != "" {
				target = filepath.Join(filepath.Dir(doc), file)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s: the link to %s leads nowhere", doc, m[1])
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			there, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(there))[anchor] {
				t.Errorf("%s: %s has no heading for %s", doc, target, m[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were found; the pattern is wrong", checked)
	}
}

// anchors makes of the headings what a Markdown host makes of them: lower case,
// dashes for blanks, without punctuation.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		found[anchor] = true
	}
	return found
}
