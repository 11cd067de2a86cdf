package wire_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/sandlot-go/sandlot/transport/wire"
)

func TestHostFrames(t *testing.T) {
	for _, tt := range []struct {
		frame wire.HostFrame
		text  string
	}{
		{wire.HostFrame{Type: wire.TypeInput, Data: "ls\n<&>"}, `{"type":"input","data":"ls\n<&>"}`},
		{wire.HostFrame{Type: wire.TypeInput}, `{"type":"input","data":""}`},
		{wire.HostFrame{Type: wire.TypeResize, Cols: 120, Rows: 40}, `{"type":"resize","cols":120,"rows":40}`},
		{wire.HostFrame{Type: wire.TypeKill}, `{"type":"kill"}`},
		{wire.HostFrame{Type: wire.TypeKill, Signal: "SIGINT"}, `{"type":"kill","signal":"SIGINT"}`},
		{wire.HostFrame{Type: wire.TypeData, Data: "cGluZwo="}, `{"type":"data","data":"cGluZwo="}`},
		{wire.HostFrame{Type: wire.TypeEnd}, `{"type":"end"}`},
		{wire.HostFrame{Type: wire.TypeDestroy}, `{"type":"destroy"}`},
		{wire.HostFrame{Type: wire.TypeHeartbeat}, `{"type":"heartbeat"}`},
	} {
		if got := string(tt.frame.Append(nil)); got != tt.text {
			t.Errorf("%+v is %s, want %s", tt.frame, got, tt.text)
		}
		if got, ok := wire.ParseHostFrame([]byte(tt.text)); !ok || got != tt.frame {
			t.Errorf("%s is %+v, %v, want %+v", tt.text, got, ok, tt.frame)
		}
	}
	for text, why := range map[string]string{
		"":                                       "nothing",
		"nope":                                   "no JSON",
		"null":                                   "no object",
		`[]`:                                     "a list",
		`{}`:                                     "no type",
		`{"type":7}`:                             "a type that is a number",
		`{"type":"zzz"}`:                         "an unknown type",
		`{"type":"input"}`:                       "input without text",
		`{"type":"input","data":5}`:              "input that is a number",
		`{"type":"data"}`:                        "data without data",
		`{"type":"resize","cols":0,"rows":1}`:    "no columns",
		`{"type":"resize","cols":1,"rows":1001}`: "too many rows",
		`{"type":"resize","cols":1.5,"rows":1}`:  "half a column",
		`{"type":"resize","cols":"80","rows":"24"}`:   "a size as text",
		`{"type":"resize","cols":80}`:                 "no rows",
		`{"type":"resize","cols":9e99,"rows":24}`:     "columns beyond all numbers",
		`{"type":"resize","cols":80,"rows":24}{"x":1`: "something behind it",
	} {
		if got, ok := wire.ParseHostFrame([]byte(text)); ok {
			t.Errorf("%s (%s) is followed as %+v", text, why, got)
		}
	}
	if got, ok := wire.ParseHostFrame([]byte(`{"type":"kill","signal":9}`)); !ok || got.Signal != "" {
		t.Errorf("a kill whose signal is a number is %+v, %v, want one without signal", got, ok)
	}
}

func TestTunnelData(t *testing.T) {
	for n := range 300 {
		data := bytes.Repeat([]byte{0xfb}, n)
		r := wire.NewFrameReader(bytes.NewReader(wire.AppendTunnelData(nil, data)), 1000)
		payload, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ParseConnectEvent(payload); err != nil || !bytes.Equal(got.([]byte), data) {
			t.Errorf("%d bytes: the host reads %v, %v", n, got, err)
		}
		f, ok := wire.ParseHostFrame(payload)
		if got, err := base64.StdEncoding.DecodeString(f.Data); !ok || err != nil || !bytes.Equal(got, data) || r.Buffered() != 0 {
			t.Errorf("%d bytes: the guest reads %q, %v, %v", n, f.Data, ok, err)
		}
	}
}
