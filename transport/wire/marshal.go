package wire

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal without the escaping for HTML, which the protocol's
// other implementations do not do. The guest writes its replies and events with
// it; a host that does not use it is spared encoding/json.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
