package sandlot_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// fixtures is the folder whose README gives the provenance of each file in a
// table: | `file` | what was done | answered by | recorded |.
const fixtures = "testdata/fixtures"

var (
	provenanceRow = regexp.MustCompile("^\\| `([^`]+)` \\|(.*)\\|$")
	recordedOn    = regexp.MustCompile(`^20\d\d-\d\d-\d\d$`)
	answeredBy    = regexp.MustCompile(`v\d+\.\d+\.\d+`)
	secret        = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{16}|(?i:bearer [a-z0-9])|PRIVATE KEY`)
)

func TestFixturesHaveProvenance(t *testing.T) {
	for _, complaint := range checkFixtures(os.DirFS(".")) {
		t.Error(complaint)
	}
}

// checkFixtures returns a sentence for each recorded file that does not say
// where it comes from, for each line about a file that is not there, and for
// recordings that cannot be read or show a credential. Folders named recorded
// below a testdata anywhere must have a README that names each of their files.
func checkFixtures(root fs.FS) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	readme, err := fs.ReadFile(root, path.Join(fixtures, "README.md"))
	if err != nil {
		return []string{err.Error()}
	}
	files, err := recordings(root, fixtures)
	if err != nil {
		return []string{err.Error()}
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(readme)) {
		row := provenanceRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		name, cells := row[1], strings.Split(row[2], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case told[name]:
			report("%s/README.md: %s has two lines", fixtures, name)
		case !slices.Contains(files, name):
			report("%s/README.md: %s has a line and is not there", fixtures, name)
		case len(cells) != 3 || cells[0] == "" || !answeredBy.MatchString(cells[1]) || !recordedOn.MatchString(cells[2]):
			report("%s/README.md: the line of %s must say what was done, by which version it was answered and on which day", fixtures, name)
		}
		told[name] = true
	}
	for _, name := range files {
		if !told[name] {
			report("%s/%s: no line in README.md says where it comes from", fixtures, name)
		}
		found = append(found, checkRecording(root, path.Join(fixtures, name))...)
	}

	err = fs.WalkDir(root, ".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if !d.IsDir() || d.Name() != "recorded" || path.Base(path.Dir(dir)) != "testdata" {
			return nil
		}
		files, err := recordings(root, dir)
		if err != nil || len(files) == 0 {
			return err
		}
		readme, err := fs.ReadFile(root, path.Join(dir, "README.md"))
		if err != nil {
			report("%s: no README.md says where the recordings come from", dir)
			return nil
		}
		for _, name := range files {
			if !strings.Contains(string(readme), "`"+name+"`") {
				report("%s/%s: README.md does not name it", dir, name)
			}
			found = append(found, checkRecording(root, path.Join(dir, name))...)
		}
		return nil
	})
	if err != nil {
		report("%v", err)
	}
	return found
}

// recordings lists the files of a folder, without its README.
func recordings(root fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(root, dir)
	var names []string
	for _, entry := range entries {
		if entry.Name() != "README.md" && !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func checkRecording(root fs.FS, file string) []string {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	if path.Ext(file) == ".json" && !json.Valid(text) {
		found = append(found, file+": not JSON")
	}
	if shown := secret.Find(text); shown != nil {
		found = append(found, fmt.Sprintf("%s: %q looks like a credential", file, shown[:8]))
	}
	return found
}

func TestFixtureRulesAreNoticed(t *testing.T) {
	const head = "# Recorded\n\n| file | what was done | answered by | recorded |\n|---|---|---|---|\n"
	const good = "| `a.json` | a GET | API server v1.37.2 | 2026-11-29 |\n"
	for _, c := range []struct {
		sentence string
		files    map[string]string
		want     string // in the one complaint; none when empty
	}{
		{"a file with its line", map[string]string{"testdata/fixtures/README.md": head + good, "testdata/fixtures/a.json": "{}"}, ""},
		{"no README at all", map[string]string{"testdata/fixtures/a.json": "{}"}, "README.md"},
		{"a file without a line", map[string]string{"testdata/fixtures/README.md": head + good, "testdata/fixtures/a.json": "{}", "testdata/fixtures/b.json": "{}"},
			"b.json: no line in README.md"},
		{"a line without a file", map[string]string{"testdata/fixtures/README.md": head + good}, "a.json has a line and is not there"},
		{"two lines", map[string]string{"testdata/fixtures/README.md": head + good + good, "testdata/fixtures/a.json": "{}"}, "a.json has two lines"},
		{"a line without a version", map[string]string{"testdata/fixtures/README.md": head + "| `a.json` | a GET | an API server | 2026-11-29 |\n", "testdata/fixtures/a.json": "{}"},
			"the line of a.json must say"},
		{"a line without a day", map[string]string{"testdata/fixtures/README.md": head + "| `a.json` | a GET | API server v1.37.2 | long ago |\n", "testdata/fixtures/a.json": "{}"},
			"the line of a.json must say"},
		{"a line without a deed", map[string]string{"testdata/fixtures/README.md": head + "| `a.json` | | API server v1.37.2 | 2026-11-29 |\n", "testdata/fixtures/a.json": "{}"},
			"the line of a.json must say"},
		{"a recording that was cut", map[string]string{"testdata/fixtures/README.md": head + good, "testdata/fixtures/a.json": `{"a":`}, "a.json: not JSON"},
		{"a recording with a token in it", map[string]string{"testdata/fixtures/README.md": head + good, "testdata/fixtures/a.json": `{"a":"Bearer abc"}`},
			"looks like a credential"},
		{"recordings elsewhere that nobody explains", map[string]string{"testdata/fixtures/README.md": head, "k8s/testdata/recorded/x.json": "{}"},
			"k8s/testdata/recorded: no README.md"},
		{"one of them that is not named", map[string]string{"testdata/fixtures/README.md": head, "k8s/testdata/recorded/README.md": "`x.json`: a GET", "k8s/testdata/recorded/x.json": "{}", "k8s/testdata/recorded/y.json": "{}"},
			"k8s/testdata/recorded/y.json: README.md does not name it"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if _, there := files[path.Join(fixtures, "README.md")]; there {
				files[fixtures] = &fstest.MapFile{Mode: fs.ModeDir}
			}
			got := checkFixtures(files)
			switch {
			case c.want == "" && len(got) == 0:
			case c.want != "" && len(got) == 1 && strings.Contains(got[0], c.want):
			default:
				t.Errorf("complaints = %q, want one with %q", got, c.want)
			}
		})
	}
}
