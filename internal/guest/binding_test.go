//go:build linux

package guest_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/uuid"
)

// A binding says what the placeholders of a recording stand for in a replay.
type binding struct {
	mu    sync.Mutex
	names map[string]string
	swaps *strings.Replacer // paths of the recording's machine that have another name here
}

var placeholder = regexp.MustCompile(`<(token|boot-id|boot-id-2|uuid-\d+|UUID-\d+|pid|workspace|workspace-name)>`)

// kinds are what can stand in the place of a placeholder that is not bound yet.
var kinds = map[string]string{"boot": `[0-9a-f-]{36}`, "uuid": `[0-9a-f-]{36}`, "UUID": `[0-9A-F-]{36}`, "pid": `\d+`}

// lookup finds what a placeholder stands for. <UUID-1> is <uuid-1> in upper case.
func (b *binding) lookup(name string) (string, bool) {
	v, ok := b.names[strings.Replace(name, "UUID", "uuid", 1)]
	if strings.HasPrefix(name, "UUID") {
		v = strings.ToUpper(v)
	}
	return v, ok
}

// fill replaces the placeholders of a text to be sent. Ids that have not been
// seen are made up.
func (b *binding) fill(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.swaps.Replace(placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[1 : len(p)-1]
		if _, ok := b.lookup(name); !ok {
			b.names[strings.ToLower(name)] = uuid.New()
		}
		v, _ := b.lookup(name)
		return v
	}))
}

// match compares a received text with the recorded one and learns what its
// placeholders stand for.
func (b *binding) match(recorded, got string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	recorded = b.swaps.Replace(recorded)
	if cut := shortened.FindStringSubmatchIndex(recorded); cut != nil {
		head, tail := recorded[:cut[0]], recorded[cut[1]:]
		n, _ := strconv.Atoi(recorded[cut[2]:cut[3]])
		n += utf8.RuneCountInString(head + tail)
		if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) || utf8.RuneCountInString(got) != n {
			return fmt.Errorf("text of %d characters %.40q…, want %d characters %.40q…%.40q", utf8.RuneCountInString(got), got, n, head, tail)
		}
		return nil
	}
	var pattern strings.Builder
	var unbound []string
	at := 0
	for _, p := range placeholder.FindAllStringIndex(recorded, -1) {
		pattern.WriteString(regexp.QuoteMeta(recorded[at:p[0]]))
		at = p[1]
		name := recorded[p[0]+1 : p[1]-1]
		kind, _, _ := strings.Cut(name, "-")
		if v, ok := b.lookup(name); ok {
			pattern.WriteString(regexp.QuoteMeta(v))
		} else {
			unbound = append(unbound, name)
			pattern.WriteString("(" + kinds[kind] + ")")
		}
	}
	pattern.WriteString(regexp.QuoteMeta(recorded[at:]))
	found := regexp.MustCompile(`(?s)\A` + pattern.String() + `\z`).FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("%.300q, want %.300q", got, recorded)
	}
	for i, name := range unbound {
		if name != "pid" { // there can be many
			b.names[strings.ToLower(name)] = strings.ToLower(found[i+1])
		}
	}
	return nil
}
