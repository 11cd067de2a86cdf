package wire

import (
	"bytes"
	"encoding/base64"
)

const (
	dataHead = `{"type":"` + TypeData + `","data":"`
	dataTail = `"}`
)

// AppendData appends what is in a frame of base64 to dst, if that is written as
// all guests write it. Where it reports false the frame may still be one, and has
// to be parsed. It saves ParseReadEvent's making a buffer for each piece of a
// file.
func AppendData(dst, payload []byte) ([]byte, bool) {
	text, ok := bytes.CutPrefix(payload, []byte(dataHead))
	if !ok {
		return dst, false
	}
	if text, ok = bytes.CutSuffix(text, []byte(dataTail)); !ok {
		return dst, false
	}
	// The decoder skips line breaks, which JSON does not have within a string.
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return dst, false
	}
	data, err := base64.StdEncoding.AppendDecode(dst, text)
	return data, err == nil
}
