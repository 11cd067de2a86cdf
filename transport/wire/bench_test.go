package wire_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

func BenchmarkParseExecuteEvent(b *testing.B) {
	payload := []byte(`{"type":"stdout_delta","data":"` + strings.Repeat("plain text\\n", 5957) + `"}`)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := wire.ParseExecuteEvent(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseReadEvent(b *testing.B) {
	payload := []byte(`{"type":"data","data":"` + base64.StdEncoding.EncodeToString(make([]byte, wire.ReadChunk)) + `"}`)
	b.SetBytes(wire.ReadChunk)
	for b.Loop() {
		if _, err := wire.ParseReadEvent(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteFrame(b *testing.B) {
	content := make([]byte, 48<<10)
	b.SetBytes(4 << 20)
	frame := &wire.WriteFrame{Budget: 6 << 20}
	for b.Loop() {
		frame.Reset()
		for frame.Len() < 4<<20 {
			frame.Add(content[:min(len(content), 4<<20-frame.Len())])
		}
		frame.Frame(wire.WriteBody{Path: "f"}, "t")
	}
}
