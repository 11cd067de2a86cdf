package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// A Request is what the host sends as the first frame of a connection. Body is
// one of the *Body types of this package, or nil.
type Request struct {
	Op    string `json:"op"`
	Body  any    `json:"body,omitempty"`
	Token string `json:"token,omitempty"`
}

// A ReserveBody asks for an execution id of the caller's choice.
type ReserveBody struct {
	ExecutionID string `json:"executionId,omitempty"`
}

// An ExecuteBody starts a program. Absent fields are omitted, never null.
type ExecuteBody struct {
	ExecutionID string            `json:"executionId,omitempty"`
	Command     string            `json:"command"`
	Args        []string          `json:"args"`
	Cwd         string            `json:"cwd,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Stdin       *string           `json:"stdin,omitempty"`
	TimeoutMs   int64             `json:"timeoutMs,omitempty"`
	MaxOutput   int64             `json:"maxOutputBytes,omitempty"` // per stream
}

// A CancelBody names the execution to end.
type CancelBody struct {
	ExecutionID string `json:"executionId"`
}

// A ReadBody is the body of read-file and read-file-stream.
type ReadBody struct {
	Path     string `json:"path"`
	Encoding string `json:"encoding,omitempty"`
	Offset   *int64 `json:"offset,omitempty"`
	Length   *int64 `json:"length,omitempty"`
}

// A WriteBody is the body of write-file. Content is base64 when Encoding says
// so and UTF-8 text otherwise.
type WriteBody struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"`
	Part     *Part  `json:"part,omitempty"`
}

// A Part makes a write-file one step of a write of any size: Path then names
// the temporary file and RenameTo, in the final part, the target.
type Part struct {
	Offset   int64  `json:"offset"`
	Final    bool   `json:"final"`
	RenameTo string `json:"renameTo,omitempty"`
	Discard  bool   `json:"discard,omitempty"`
}

// EncodingBase64 marks content that is base64 (standard alphabet, padded).
const EncodingBase64 = "base64"

// Marshal is json.Marshal without the escaping for HTML, which the protocol's
// other implementations do not do and which costs bytes of a bounded frame.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// An Envelope is a request as the guest finds it. Nothing in it is checked: Op
// and Token may be of any JSON type, and are nil where absent; Body is nil
// unless it is an object.
type Envelope struct {
	Op    any
	Body  map[string]any
	Token any
}

// ErrNotJSON reports a first frame that is not JSON at all.
var ErrNotJSON = errors.New("wire: payload is not JSON")

// ParseEnvelope reads a request. JSON that is no object is a request with
// nothing in it, as the reference guest sees it. Numbers are json.Number.
func ParseEnvelope(payload []byte) (Envelope, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return Envelope{}, ErrNotJSON
	}
	if _, err := dec.Token(); err != io.EOF {
		return Envelope{}, ErrNotJSON
	}
	o, _ := v.(map[string]any)
	body, _ := o["body"].(map[string]any)
	return Envelope{Op: o["op"], Body: body, Token: o["token"]}, nil
}
