package main

import (
	"encoding/json"
	"testing"
)

// A kubeconfig whose users are emptied keeps nothing of them but their names;
// what is no kubeconfig is left as it is.
func FuzzWithoutCredentials(f *testing.F) {
	f.Add([]byte(`{"current-context":"c","users":[{"name":"u","user":{"token":"t"}}]}`))
	f.Add([]byte(`{"users":[null,{},{"user":null}],"clusters":{}}`))
	f.Add([]byte(`{"users":{"user":1}}`))
	f.Add([]byte("apiVersion: v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := withoutCredentials(data)
		if string(out) == string(data) {
			return
		}
		var config map[string]json.RawMessage
		var users []map[string]json.RawMessage
		if err := json.Unmarshal(out, &config); err != nil {
			t.Fatalf("%q became %q: %v", data, out, err)
		}
		if err := json.Unmarshal(config["users"], &users); err != nil {
			t.Fatalf("%q became %q: %v", data, out, err)
		}
		for _, u := range users {
			if u != nil && string(u["user"]) != "{}" {
				t.Errorf("%q became %q, which keeps %s", data, out, u["user"])
			}
		}
	})
}

// Whatever text a server, a guest or a file has, none of it moves the cursor of
// the terminal that it is shown on.
func FuzzPrintable(f *testing.F) {
	f.Add("plain")
	f.Add("a\x1b[2Jb\r\n\x00\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range printable(s) {
			if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == '\u202e' {
				t.Errorf("printable(%q) holds %q", s, r)
			}
		}
	})
}
