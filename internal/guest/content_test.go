//go:build linux

package guest_test

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// TestParseLarge holds it to wire.ParseEnvelope: but for content in plain base64,
// which it decodes, it finds the same in every request.
func TestParseLarge(t *testing.T) {
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("some content", 1000)))
	for _, tt := range []struct {
		name, text string
		decoded    bool
	}{
		{"content first", `{"op":"write-file","body":{"content":"` + long + `","path":"a","encoding":"base64"},"token":"t"}`, true},
		{"content last", `{"token":"t","body":{"encoding":"base64","path":"\"content\":\"","content":"` + long + `"},"op":"write-file"}`, true},
		{"no content in it", `{"op":"write-file","body":{"content":"","encoding":"base64"}}`, true},
		{"the second of two contents", `{"op":"write-file","body":{"content":"QQ==","content":"Qg==","encoding":"base64"}}`, false},
		{"the second of two bodies", `{"op":"write-file","body":{"content":"QQ==","encoding":"base64"},"body":{"content":"Qg==","encoding":"base64"}}`, false},
		{"content elsewhere", `{"op":"write-file","content":"QQ==","body":{"content":"Qg==","encoding":"base64"}}`, false},
		{"content further inside", `{"op":"write-file","body":{"part":{"content":"QQ=="},"content":"","encoding":"base64"}}`, false},
		{"a key that ends like it", `{"op":"write-file","body":{"\"content":"QQ==","encoding":"base64"}}`, false},
		{"a text", `{"op":"write-file","body":{"content":"QQ=="}}`, false},
		{"another operation", `{"op":"execute","body":{"content":"QQ==","encoding":"base64"}}`, false},
		{"another alphabet", `{"op":"write-file","body":{"content":"_-8","encoding":"base64"}}`, false},
		{"escapes in it", `{"op":"write-file","body":{"content":"QQ\u003d=","encoding":"base64"}}`, false},
		{"a quote in it", `{"op":"write-file","body":{"content":"QQ==\"","encoding":"base64"}}`, false},
		{"a line break in it", "{\"op\":\"write-file\",\"body\":{\"content\":\"QQ==\n\",\"encoding\":\"base64\"}}", false},
		{"no end", `{"op":"write-file","body":{"encoding":"base64","content":"QQ==`, false},
		{"nothing", ``, false},
		{"nothing else", `"content":"QQ=="`, false},
	} {
		got, gotErr := guest.ParseLarge([]byte(tt.text))
		want, wantErr := wire.ParseEnvelope([]byte(tt.text))
		data, decoded := got.Body["content"].([]byte)
		if decoded != tt.decoded {
			t.Errorf("%s: decoded: %v", tt.name, decoded)
		}
		if decoded {
			if text := base64.StdEncoding.EncodeToString(data); text != want.Body["content"] {
				t.Errorf("%s: got the content %.40q, want %.40q", tt.name, text, want.Body["content"])
			}
			want.Body["content"] = data
		}
		if gotErr != wantErr || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %.200v, %v\nwant %.200v, %v", tt.name, got, gotErr, want, wantErr)
		}
	}
}
