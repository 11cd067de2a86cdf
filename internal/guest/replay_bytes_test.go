//go:build linux

package guest_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/sandlot-go/sandlot/transport/wire"
)

// described holds the bytes that recordings only describe.
var described = map[string]func() [][]byte{
	"00000010\n{\"op\":\"healthz\"} one byte per write": func() [][]byte { return singly([]byte("00000010\n{\"op\":\"healthz\"}")) },
	"one byte every 200 ms":                             func() [][]byte { return singly(echo("é", 200)) },
	"1 of 113 bytes":                                    func() [][]byte { return one(echo("hé", 0)[:1]) },
	"the other 112 bytes":                               func() [][]byte { return one(echo("hé", 0)[1:]) },
	"40 of 113 bytes":                                   func() [][]byte { return one(echo("hé", 0)[:40]) },
	"the other 73 bytes":                                func() [][]byte { return one(echo("hé", 0)[40:]) },
	`000000AF\n + payload`: func() [][]byte {
		return one([]byte("000000AF\n" + `{"op":"healthz","pad":"` + strings.Repeat("x", 0xaf-25) + `"}`))
	},
	"frame with: null":                func() [][]byte { return one(wire.AppendFrame(nil, []byte("null"))) },
	"terminator frame":                func() [][]byte { return one(wire.AppendFrame(nil, nil)) },
	"frame with: not json":            func() [][]byte { return one(wire.AppendFrame(nil, []byte("not json"))) },
	"1 MiB of A":                      func() [][]byte { return one(bytes.Repeat([]byte("A"), 1<<20)) },
	`00800001\n`:                      func() [][]byte { return one([]byte("00800001\n")) },
	`00800001\n + 2 MiB`:              func() [][]byte { return one(append([]byte("00800001\n"), make([]byte, 2<<20)...)) },
	`00800000\n + 1000 bytes`:         func() [][]byte { return one(append([]byte("00800000\n"), make([]byte, 1000)...)) },
	`0000ffff\n + 60,000 bytes`:       func() [][]byte { return one(append([]byte("0000ffff\n"), make([]byte, 60000)...)) },
	"an x field with the bytes ff fe": func() [][]byte { return one(wire.AppendFrame(nil, []byte("{\"op\":\"healthz\",\"x\":\"\xff\xfe\"}"))) },
	"all but the last 5 bytes of an execute frame": func() [][]byte {
		b := request(wire.OpExecute, object{"command": "touch", "args": []string{"half-a-frame"}})
		return one(b[:len(b)-5])
	},
	`refused frame + 00700000\n + 16384 bytes`:   func() [][]byte { return one(refusedAnd(16384)) },
	`refused frame + 00700000\n + 262144 bytes`:  func() [][]byte { return one(refusedAnd(262144)) },
	`refused frame + 00700000\n + 2097152 bytes`: func() [][]byte { return one(refusedAnd(2097152)) },
}

func one(b []byte) [][]byte { return [][]byte{b} }

func singly(b []byte) [][]byte {
	var all [][]byte
	for i := range b {
		all = append(all, b[i:i+1])
	}
	return all
}

// echo is an execute request, with an argument that nobody looks at of n bytes.
func echo(word string, n int) []byte {
	return request(wire.OpExecute, object{"command": "echo", "args": []string{word}, "pad": strings.Repeat("x", n)})
}

func refusedAnd(n int) []byte {
	b := frame(wire.Request{Op: wire.OpReserve, Token: "wrong"})
	return append(append(b, "00700000\n"...), make([]byte, n)...)
}

// cork keeps a connection from sending until its write side is closed.
func cork(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1) })
	}
}

// clock is a guest that runs nothing but sleep: what a recording did after a
// pause is done when a program of that duration has ended. TestMain starts it.
var clock *testGuest

func pause(ms float64) {
	clock.runThrough(object{"command": "sleep", "args": []float64{ms / 1000}})
}

// runThrough runs a program to its end.
func (g *testGuest) runThrough(body object) {
	conn, _, err := g.connect()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	conn.Write(request(wire.OpExecute, body))
	io.Copy(io.Discard, conn)
}
