package guest

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// Fields of a request are of any JSON type. Where the reference guest, a
// JavaScript program, makes a text or a number of what it finds, hosts may have
// come to rely on it, so the same is made of it here.

// textOf is JavaScript's String(v).
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return formatNumber(numberOfText(v.String()))
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			if e != nil {
				parts[i] = textOf(e)
			}
		}
		return strings.Join(parts, ",")
	}
	return "[object Object]"
}

// formatNumber is JavaScript's text of a number.
func formatNumber(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0:
		return "0" // also of -0
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	return mantissa + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

// numberOf is JavaScript's Number(v).
func numberOf(v any) float64 {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 1
		}
		return 0
	case string:
		return numberOfText(v)
	case json.Number:
		return numberOfText(v.String())
	case []any:
		return numberOfText(textOf(v))
	}
	return math.NaN()
}

var decimal = regexp.MustCompile(`\A[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\z`)

const blanks = " \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

func numberOfText(s string) float64 {
	s = strings.Trim(s, blanks)
	switch s {
	case "":
		return 0
	case "Infinity", "+Infinity":
		return math.Inf(1)
	case "-Infinity":
		return math.Inf(-1)
	}
	if len(s) > 2 && s[0] == '0' {
		if base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'O': 8, 'b': 2, 'B': 2}[s[1]]; base != 0 {
			n, err := strconv.ParseUint(s[2:], base, 64)
			if err != nil {
				return math.NaN()
			}
			return float64(n)
		}
	}
	if !decimal.MatchString(s) {
		return math.NaN()
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range is an infinity, as there
	return f
}

// safeInteger reports whether f is a whole number of 0 to 2^53-1.
func safeInteger(f float64) bool {
	return f == math.Trunc(f) && f >= 0 && f <= wire.MaxSafeInteger
}

// truthy is JavaScript's Boolean(v).
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		f := numberOf(v)
		return f != 0 && !math.IsNaN(f)
	}
	return true
}

// jsonOf is JavaScript's JSON.stringify(v), cut to what an error text needs.
func jsonOf(v any) string {
	if n, ok := v.(json.Number); ok {
		if f := numberOf(n); math.IsInf(f, 0) {
			return "null"
		}
		return textOf(n)
	}
	b, err := wire.Marshal(v)
	if err != nil {
		return "null"
	}
	return excerpt(string(b))
}

// excerpt bounds what of a peer's text goes back into an error.
func excerpt(s string) string {
	const most = 1024
	if len(s) <= most {
		return s
	}
	return decodeText([]byte(s[:most])) + "…"
}

// wrongType is how the reference guest's runtime refuses an argument that
// should have been a string.
func wrongType(argument string, v any) refusal {
	var received string
	switch v := v.(type) {
	case nil:
		received = "null"
	case bool:
		received = fmt.Sprintf("type boolean (%v)", v)
	case json.Number:
		received = fmt.Sprintf("type number (%s)", textOf(v))
	case []any:
		received = "an instance of Array"
	default:
		received = "an instance of Object"
	}
	return refusal(fmt.Sprintf("The %q argument must be of type string. Received %s", argument, received))
}

// nullByte is how it refuses a string with a null byte.
func nullByte(kind, name, wanted, v string) refusal {
	quoted := strings.NewReplacer("\x00", `\x00`, "\n", `\n`, "'", `\'`, `\`, `\\`).Replace(excerpt(v))
	return refusal(fmt.Sprintf("The %s '%s' must be a %s without null bytes. Received '%s'", kind, name, wanted, quoted))
}

// texts makes a list of strings of a JSON array, and an empty one of anything
// else.
func texts(v any) []string {
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = textOf(e)
	}
	return out
}

// environment makes assignments of a JSON object, in the order of their names,
// and none of anything else.
func environment(v any) []string {
	object, _ := v.(map[string]any)
	out := make([]string, 0, len(object))
	for name, value := range object {
		out = append(out, name+"="+textOf(value))
	}
	slices.Sort(out)
	return out
}
