package wire

import (
	"encoding/base64"
	"slices"

	"github.com/sandlot-go/sandlot/internal/jsontree"
)

// The types of frames that a host sends on an open stream, beside TypeData,
// TypeEnd and TypeHeartbeat.
const (
	TypeInput   = "input"   // text for the program of a terminal
	TypeResize  = "resize"  // new size of a terminal
	TypeKill    = "kill"    // signal for the program of a terminal
	TypeDestroy = "destroy" // end of a tcp-connect in both directions
)

// A HostFrame is a frame that a host sends on an open stream.
type HostFrame struct {
	Type       string
	Data       string // TypeInput: text. TypeData: base64
	Cols, Rows int    // TypeResize
	Signal     string // TypeKill; empty is the guest's default
}

// Append appends the frame's JSON to dst.
func (f HostFrame) Append(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("type", f.Type)
	switch f.Type {
	case TypeInput, TypeData:
		o.text("data", f.Data)
	case TypeResize:
		o.number("cols", int64(f.Cols))
		o.number("rows", int64(f.Rows))
	case TypeKill:
		o.textIf("signal", f.Signal)
	}
	return append(o.dst, '}')
}

// ParseHostFrame reads a frame of a host on an open stream and reports whether
// there is anything in it that a guest follows. The rest is to be ignored: what
// is no JSON, of no known type, or without the fields of its type. Signals are
// whatever text the host sent.
func ParseHostFrame(payload []byte) (HostFrame, bool) {
	fields, err := jsontree.ParseObject(payload)
	if err != nil {
		return HostFrame{}, false
	}
	m := &message{name: "frame of the host", fields: fields}
	var f HostFrame
	field(m, "type", true, &f.Type)
	switch f.Type {
	case TypeEnd, TypeDestroy, TypeHeartbeat:
	case TypeInput, TypeData:
		field(m, "data", true, &f.Data)
	case TypeKill:
		f.Signal, _ = fields["signal"].(string)
	case TypeResize:
		var cols, rows int64
		m.integer("cols", true, &cols)
		m.integer("rows", true, &rows)
		if !validCells(cols) || !validCells(rows) {
			m.fail("no size")
		}
		f.Cols, f.Rows = int(cols), int(rows)
	default:
		m.fail("type %.40q", f.Type)
	}
	return f, m.err == nil
}

func validCells(n int64) bool { return 1 <= n && n <= MaxTerminalCells }

// AppendTunnelData appends one whole frame, header included, with data of a
// tcp-connect. It is the same in both directions.
func AppendTunnelData(dst, data []byte) []byte {
	n := len(dataHead) + base64.StdEncoding.EncodedLen(len(data)) + len(dataTail)
	dst = slices.Grow(dst, HeaderLen+n)
	dst = appendHeader(dst, n)
	dst = append(dst, dataHead...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, dataTail...)
}
