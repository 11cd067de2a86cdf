package wire

import (
	"bytes"
	"encoding/base64"
)

const (
	dataHead = `{"type":"` + TypeData + `","data":"`
	dataTail = `"}`
)

// plainData decodes a frame of base64 that is written as all guests write it.
// Where it reports false the frame may still be one, and has to be parsed.
func plainData(payload []byte) ([]byte, bool) {
	text, ok := bytes.CutPrefix(payload, []byte(dataHead))
	if !ok {
		return nil, false
	}
	if text, ok = bytes.CutSuffix(text, []byte(dataTail)); !ok {
		return nil, false
	}
	// The decoder skips line breaks, which JSON does not have within a string.
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, false
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	return data[:n], err == nil
}
