package wire

import (
	"errors"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// A Request is what the host sends as the first frame of a connection. Body is
// one of the *Body types of this package, nil, or a tree of plain values.
type Request struct {
	Op    string
	Body  any
	Token string
}

// A ReserveBody asks for an execution id of the caller's choice.
type ReserveBody struct {
	ExecutionID string
}

// An ExecuteBody starts a program. Absent fields are omitted, never null.
type ExecuteBody struct {
	ExecutionID string
	Command     string
	Args        []string
	Cwd         string
	Env         map[string]string
	Stdin       *string
	TimeoutMs   int64
	MaxOutput   int64 // per stream
	Retain      bool  // keep the output for attach-execution; needs an ExecutionID of the caller's choice
}

// A CancelBody names the execution to end.
type CancelBody struct {
	ExecutionID string
}

// A ReadBody is the body of read-file and read-file-stream.
type ReadBody struct {
	Path     string
	Encoding string
	Offset   *int64
	Length   *int64
}

// A WriteBody is the body of write-file. Content is base64 when Encoding says
// so and UTF-8 text otherwise.
type WriteBody struct {
	Path     string
	Content  string
	Encoding string
	Part     *Part
}

// A Part makes a write-file one step of a write of any size: Path then names
// the temporary file and RenameTo, in the final part, the target.
type Part struct {
	Offset   int64
	Final    bool
	RenameTo string
	Discard  bool
}

// EncodingBase64 marks content that is base64 (standard alphabet, padded).
const EncodingBase64 = "base64"

// Append appends the request's JSON to dst. It fails only for a Body that is no
// JSON.
func (r Request) Append(dst []byte) ([]byte, error) {
	o := object{dst: append(dst, '{')}
	o.text("op", r.Op)
	if r.Body != nil {
		o.key("body")
		if b, ok := r.Body.(body); ok {
			o.dst = b.append(o.dst)
		} else if tree, err := jsontree.Append(o.dst, r.Body); err != nil {
			return nil, err
		} else {
			o.dst = tree
		}
	}
	if r.Token != "" {
		o.text("token", r.Token)
	}
	return append(o.dst, '}'), nil
}

// MarshalJSON is Append for encoding/json.
func (r Request) MarshalJSON() ([]byte, error) { return r.Append(nil) }

type body interface{ append(dst []byte) []byte }

var (
	_ body = ReserveBody{}
	_ body = ExecuteBody{}
	_ body = CancelBody{}
	_ body = ReadBody{}
	_ body = WriteBody{}
)

func (b ReserveBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.textIf("executionId", b.ExecutionID)
	return append(o.dst, '}')
}

func (b ExecuteBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.textIf("executionId", b.ExecutionID)
	if b.Retain {
		o.flag("retainOutput", true)
	}
	o.text("command", b.Command)
	o.texts("args", b.Args)
	o.textIf("cwd", b.Cwd)
	o.environ(b.Env)
	if b.Stdin != nil {
		o.text("stdin", *b.Stdin)
	}
	o.numberIf("timeoutMs", b.TimeoutMs)
	o.numberIf("maxOutputBytes", b.MaxOutput)
	return append(o.dst, '}')
}

func (b CancelBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("executionId", b.ExecutionID)
	return append(o.dst, '}')
}

func (b ReadBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("path", b.Path)
	o.textIf("encoding", b.Encoding)
	if b.Offset != nil {
		o.number("offset", *b.Offset)
	}
	if b.Length != nil {
		o.number("length", *b.Length)
	}
	return append(o.dst, '}')
}

func (b WriteBody) append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("path", b.Path)
	o.text("content", b.Content)
	o.textIf("encoding", b.Encoding)
	o.part(b.Part)
	return append(o.dst, '}')
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
	v, err := jsontree.Parse(payload)
	if err != nil {
		return Envelope{}, ErrNotJSON
	}
	o, _ := v.(map[string]any)
	body, _ := o["body"].(map[string]any)
	return Envelope{Op: o["op"], Body: body, Token: o["token"]}, nil
}
