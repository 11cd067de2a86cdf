package k8s

import (
	"strconv"
	"strings"
)

// A Warning is what a server remarked on a request that it carried out, such as
// the use of a deprecated version.
type Warning struct {
	Method, Path string // of the request
	Code         int    // 299 from an API server
	Agent        string
	Text         string // bounded and printable
}

// maxWarnings bounds how many warnings of one answer are passed on.
const maxWarnings = 32

// parseWarnings reads Warning headers (RFC 7234, 5.5). One header may hold
// several, separated by commas; what is malformed is left out.
func parseWarnings(headers []string) []Warning {
	var out []Warning
	for _, s := range headers {
		for s != "" && len(out) < maxWarnings {
			var w Warning
			var ok bool
			if w, s, ok = cutWarning(s); !ok {
				break
			}
			out = append(out, w)
		}
	}
	return out
}

// cutWarning reads one warning: code, agent, quoted text and maybe a quoted
// date.
func cutWarning(s string) (w Warning, rest string, ok bool) {
	code, s, _ := strings.Cut(strings.TrimLeft(s, " \t,"), " ")
	n, err := strconv.Atoi(code)
	if err != nil || len(code) != 3 || n < 100 {
		return w, "", false
	}
	agent, s, found := strings.Cut(s, " ")
	if !found {
		return w, "", false
	}
	text, s, ok := cutQuoted(s)
	if !ok {
		return w, "", false
	}
	if _, after, dated := cutQuoted(s); dated {
		s = after
	}
	return Warning{Code: n, Agent: excerpt(agent), Text: excerpt(text)}, s, true
}

// cutQuoted reads a quoted string, in which a backslash stands before any
// character that is meant as it is.
func cutQuoted(s string) (text, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", s, false
			}
		}
		b.WriteByte(s[i])
	}
	return "", s, false
}
