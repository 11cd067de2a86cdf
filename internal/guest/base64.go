package guest

import (
	"encoding/base64"
	"strings"
)

// decodeBase64 decodes as leniently as the reference guest does: both alphabets,
// padding or not, and what is in neither alphabet does not count. The text ends
// at its padding.
func decodeBase64(text string) []byte {
	if data, err := base64.StdEncoding.DecodeString(text); err == nil {
		return data
	}
	text, _, _ = strings.Cut(text, "=")
	clean := make([]byte, 0, len(text))
	for i := range len(text) {
		switch c := text[i]; {
		case c == '-':
			clean = append(clean, '+')
		case c == '_':
			clean = append(clean, '/')
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
			clean = append(clean, c)
		}
	}
	if len(clean)%4 == 1 {
		clean = clean[:len(clean)-1] // six bits make no byte
	}
	data, _ := base64.RawStdEncoding.DecodeString(string(clean))
	return data
}
