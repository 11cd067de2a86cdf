package k8s

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// excerptLimit bounds what an error text repeats of another party's words.
const excerptLimit = 2 << 10

const redacted = "[redacted]"

// without cuts a secret out of a text: as it is, and as JSON or Go would quote
// it. It comes before anything that shortens the text, which could leave a part.
func without(s, secret string) string {
	if secret == "" {
		return s
	}
	quoted := strconv.Quote(secret)
	inJSON := string(jsontree.AppendString(nil, secret))
	inJSON = inJSON[1 : len(inJSON)-1]
	forHTML := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(inJSON) // as Go servers write it
	for _, form := range []string{secret, quoted[1 : len(quoted)-1], inJSON, forHTML} {
		s = strings.ReplaceAll(s, form, redacted)
	}
	return s
}

// excerpt makes a piece of another party's text fit for an error or a log:
// bounded, on one line, with everything that is not printable escaped. A text
// direction override, for one, is not printable.
func excerpt(s string) string {
	s = strings.TrimSpace(s)
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= excerptLimit {
			fmt.Fprintf(&b, "... (%d bytes in all)", len(s))
			break
		}
		switch {
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
			b.WriteRune(r)
		case r == '\\' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// clip cuts s to n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
