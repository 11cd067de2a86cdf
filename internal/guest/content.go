package guest

import (
	"bytes"
	"encoding/base64"
	"slices"
	"sync"

	"github.com/sandlot-go/sandlot/internal/uuid"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// marker stands for content that was cut out of a request. No peer knows it.
var marker = uuid.New()

// contents are buffers of content that was written.
var contents sync.Pool

// parseLarge is wire.ParseEnvelope, except that the content of a write-file that
// is the base64 of the standard alphabet, as hosts send it, is decoded from the
// payload: body["content"] is a []byte then. As a text it would be in memory
// once more, and that is most of what a guest needs.
func parseLarge(payload []byte) (wire.Envelope, error) {
	const key = `"content":"`
	at := bytes.Index(payload, []byte(key))
	if at < 1 || payload[at-1] != '{' && payload[at-1] != ',' { // the end of another key, perhaps
		return wire.ParseEnvelope(payload)
	}
	start := at + len(key)
	text, _, _ := bytes.Cut(payload[start:], []byte{'"'})
	// What is left says whether that is the content, and the last of that name.
	e, err := wire.ParseEnvelope(slices.Concat(payload[:start], []byte(marker), payload[start+len(text):]))
	if err != nil || e.Op != wire.OpWriteFile || e.Body["content"] != marker || e.Body["encoding"] != wire.EncodingBase64 {
		return wire.ParseEnvelope(payload)
	}
	var data []byte
	if spare, ok := contents.Get().(*[]byte); ok {
		data = (*spare)[:0]
	}
	data, err = base64.StdEncoding.AppendDecode(data, text)
	// The decoder skips line breaks, which JSON does not have within a string.
	if err != nil || bytes.ContainsAny(text, "\r\n") {
		return wire.ParseEnvelope(payload)
	}
	e.Body["content"] = data
	return e, nil
}
