package transport_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

const plainFeatures = `{"ok":true,"protocolVersion":2,"features":["execution-attach"]}`

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func meta(size, offset, length int) Step {
	return Send(fmt.Sprintf(`{"type":"meta","sizeBytes":%d,"offset":%d,"length":%d}`, size, offset, length))
}
func data(s string) Step { return Send(`{"type":"data","data":"` + b64(s) + `"}`) }
func sent(n int) Step    { return SendBytes(frames(fmt.Sprintf(`{"type":"end","bytesSent":%d}`, n), "")) }

// streaming answers the question for features and takes the request for a
// file's stream.
func streaming(body string) Step {
	return Seq(serve("healthz", features), Accept(), Expect("read-file-stream", Token(token), Body(body)))
}

func TestReadFile(t *testing.T) {
	const whole = `{"path":"out/result.bin"}`
	for _, tt := range []struct {
		name  string
		steps []Step
		want  string
	}{
		{"in several pieces", []Step{streaming(whole), meta(8, 0, 8), data("01\x00\xff"), data(""), data("4567"), sent(8), CloseWrite(), ExpectClose()}, "01\x00\xff4567"},
		{"an empty one", []Step{streaming(whole), meta(0, 0, 0), sent(0), CloseWrite(), ExpectClose()}, ""},
		{"from a peer that sends no more after the end", []Step{streaming(whole), meta(1, 0, 1), data("x"), Send(`{"type":"end","bytesSent":1}`), ExpectClose()}, "x"},
		{"slowly, but never too slowly", []Step{streaming(whole), Delay(59 * time.Second), meta(2, 0, 2), Delay(59 * time.Second), data("x"), Delay(59 * time.Second), data("y"), sent(2), ExpectClose()}, "xy"},
		{"from a guest without the stream", []Step{serve("healthz", plainFeatures),
			serve("read-file", `{"ok":true,"guestBootId":"boot-1","content":"`+b64("a\xffb")+`","sizeBytes":3,"encoding":"base64"}`, Body(`{"path":"out/result.bin","encoding":"base64"}`))}, "a\xffb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				got, err := p.ReadFile(t.Context(), "out/result.bin")
				if err != nil || string(got) != tt.want {
					t.Errorf("got %q, %v, want %q", got, err, tt.want)
				}
			})
		})
	}
}

// TestReadFileFails has everything that can be wrong with a file's stream.
func TestReadFileFails(t *testing.T) {
	file := func(err error) bool { _, ok := errors.AsType[*transport.FileError](err); return ok }
	protocol := func(err error) bool { _, ok := errors.AsType[*transport.ProtocolError](err); return ok }
	lost := func(err error) bool { _, ok := errors.AsType[*transport.LostError](err); return ok }
	large := func(err error) bool { _, ok := errors.AsType[*transport.TooLargeError](err); return ok }
	streamError := func(s string) Step { return Send(`{"type":"error","error":` + JSON(s) + `}`) }
	for _, tt := range []struct {
		name  string
		steps []Step
		is    func(error) bool
		text  string
		took  time.Duration
	}{
		{"there is no such file", []Step{streamError("ENOENT: no such file or directory, open '/workspace/a'")},
			func(err error) bool { return file(err) && errors.Is(err, fs.ErrNotExist) }, "transport: read-file-stream a: ENOENT: no such file", 0},
		{"it may not be read", []Step{streamError("EACCES: permission denied")},
			func(err error) bool { return file(err) && errors.Is(err, fs.ErrPermission) }, "EACCES", 0},
		{"it is outside", []Step{streamError("path escapes the workspace")}, file, "path escapes the workspace", 0},
		{"the guest's words are those of a name that does not resolve", []Step{streamError("getaddrinfo ENOTFOUND guest")}, file, "transport: read-file-stream a: getaddrinfo ENOTFOUND guest", 0},
		{"reading fails in the middle", []Step{meta(4, 0, 4), data("ab"), streamError("EIO: i/o error, read")}, file, "EIO", 0},
		{"the token is refused", []Step{Send(`{"ok":false,"error":"unauthorized"}`)}, isUnauthorized, "refused the token", 0},
		{"the guest has fenced itself", []Step{Send(`{"ok":false,"error":"agent_retiring"}`)},
			func(err error) bool { _, ok := errors.AsType[*transport.RetiringError](err); return ok }, "replace the sandbox", 0},
		{"the guest refuses otherwise", []Step{Send(`{"ok":false,"error":"unknown_op: read-file-stream"}`)}, file, "unknown_op: read-file-stream", 0},
		{"it becomes shorter", []Step{meta(4, 0, 4), data("ab"), sent(2)}, file, "became shorter", 0},
		{"it is larger than is accepted", []Step{meta(101, 0, 101)}, large, "101 bytes, the limit is 100", 0},
		{"fewer bytes came than were sent", []Step{meta(4, 0, 4), data("ab"), sent(4)}, protocol, "4 bytes were sent and 2 came", 0},
		{"more bytes came than were sent", []Step{meta(4, 0, 4), data("abcd"), sent(2)}, protocol, "2 bytes were sent and 4 came", 0},
		{"more bytes came than were announced", []Step{meta(4, 0, 4), data("ab"), data("cde")}, protocol, "more than the 4 bytes", 0},
		{"data comes first", []Step{data("ab")}, protocol, "did not come first", 0},
		{"the end comes first", []Step{sent(0)}, protocol, "did not come first", 0},
		{"the size comes twice", []Step{meta(4, 0, 4), meta(4, 0, 4)}, protocol, "came twice", 0},
		{"it begins elsewhere", []Step{meta(4, 1, 3)}, protocol, "from 1 and was to be from 0", 0},
		{"more is announced than there is", []Step{meta(4, 0, 5)}, protocol, "5 bytes are announced of 4", 0},
		{"the size is negative", []Step{meta(-4, 0, 0)}, protocol, "negative", 0},
		{"the data is no base64", []Step{meta(4, 0, 4), Send(`{"type":"data","data":"?"}`)}, protocol, "no base64", 0},
		{"an event of another stream", []Step{meta(4, 0, 4), stdout("x")}, protocol, `type "stdout_delta"`, 0},
		{"the terminator before the end", []Step{meta(0, 0, 0), Terminator()}, protocol, "not a JSON object", 0},
		{"a frame beyond the limit", []Step{SendBytes([]byte("00800001\n"))}, protocol, "8388609 bytes announced", 0},
		{"a header that is none", []Step{SendBytes([]byte("nonsense!"))}, protocol, "malformed frame header", 0},
		{"the connection is closed before anything came", []Step{Close()}, lost, "closed before the answer", 0},
		{"the connection is closed before the end", []Step{meta(2, 0, 2), data("ab"), Close()}, lost, "unexpected EOF", 0},
		{"the connection is reset", []Step{meta(4, 0, 4), Delay(time.Millisecond), Reset()}, lost, "reset", time.Millisecond},
		{"nothing comes", []Step{ExpectClose()}, lost, "no byte came for 1m0s", time.Minute},
		{"nothing more comes", []Step{meta(4, 0, 4), Delay(time.Second), data("ab"), ExpectClose()}, lost, "no byte came for 1m0s", time.Minute + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{MaxFileBytes: 100}, append([]Step{streaming(`{"path":"a"}`)}, tt.steps...), func(t *testing.T, p *pod) {
				got, err := p.ReadFile(t.Context(), "a")
				if got != nil || err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, %T %v, want %q in it", got, err, err, tt.text)
				}
				p.took(t, tt.took)
			})
		})
	}
}

// TestReadCutAtEveryByte never takes a part of a file for the whole.
func TestReadCutAtEveryByte(t *testing.T) {
	stream := frames(`{"type":"meta","sizeBytes":4,"offset":0,"length":4}`, `{"type":"data","data":"`+b64("ab")+`"}`, `{"type":"data","data":"`+b64("cd")+`"}`, `{"type":"end","bytesSent":4}`)
	for n := range len(stream) + 1 {
		bubble(t, transport.Config{}, []Step{streaming(`{"path":"a"}`), SendBytes(stream[:n]), Close()}, func(t *testing.T, p *pod) {
			var got bytes.Buffer
			count, err := p.ReadFileTo(t.Context(), "a", &got)
			if !strings.HasPrefix("abcd", got.String()) || count != int64(got.Len()) {
				t.Errorf("after %d bytes: wrote %q and counted %d", n, &got, count)
			}
			if done := n == len(stream); (err == nil) != done || done && got.String() != "abcd" {
				t.Errorf("after %d of %d bytes: %q, %v", n, len(stream), &got, err)
			}
		})
	}
}

func TestReadFileTo(t *testing.T) {
	t.Run("a slow writer", func(t *testing.T) {
		steps := []Step{Patience(24 * time.Hour), streaming(`{"path":"a"}`), meta(4, 0, 4), data("ab"), data("cd"), sent(4), ExpectClose()}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			var got bytes.Buffer
			n, err := p.ReadFileTo(t.Context(), "a", writer(func(b []byte) (int, error) { time.Sleep(time.Hour); return got.Write(b) }))
			if n != 4 || err != nil || got.String() != "abcd" {
				t.Errorf("got %d, %q, %v", n, &got, err)
			}
			p.took(t, 2*time.Hour)
		})
	})
	t.Run("a writer that fails", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{streaming(`{"path":"a"}`), meta(4, 0, 4), data("ab"), ExpectClose()}, func(t *testing.T, p *pod) {
			if n, err := p.ReadFileTo(t.Context(), "a", failing{}); n != 0 || !errors.Is(err, errFailing) {
				t.Errorf("got %d, %v", n, err)
			}
		})
	})
	t.Run("a writer that takes less than it was given", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{streaming(`{"path":"a"}`), meta(4, 0, 4), data("ab"), ExpectClose()}, func(t *testing.T, p *pod) {
			n, err := p.ReadFileTo(t.Context(), "a", writer(func(b []byte) (int, error) { return 1, nil }))
			if n != 1 || !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("got %d, %v", n, err)
			}
		})
	})
}

func TestReadFileFromAPlainGuestFails(t *testing.T) {
	for _, tt := range []struct{ name, reply, text string }{
		{"the size does not match", `{"ok":true,"content":"YQ==","sizeBytes":2,"encoding":"base64"}`, "2 bytes are announced and 1 came"},
		{"another encoding", `{"ok":true,"content":"a","sizeBytes":1,"encoding":"utf8"}`, `encoded as "utf8"`},
		{"no base64", `{"ok":true,"content":"?","sizeBytes":1,"encoding":"base64"}`, "no base64"},
		{"larger than is accepted", `{"ok":true,"content":"` + b64(strings.Repeat("x", 101)) + `","sizeBytes":101,"encoding":"base64"}`, "101 bytes, the limit is 100"},
		{"there is no such file", `{"ok":false,"error":"ENOENT: no such file"}`, "transport: read-file a: ENOENT: no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := []Step{serve("healthz", plainFeatures), serve("read-file", tt.reply)}
			if strings.Contains(tt.text, "announced") || strings.Contains(tt.text, "base64") || strings.Contains(tt.text, "encoded") {
				steps[1] = Seq(Accept(), Expect("read-file"), answer(tt.reply))
			}
			bubble(t, transport.Config{MaxFileBytes: 100}, steps, func(t *testing.T, p *pod) {
				got, err := p.ReadFile(t.Context(), "a")
				if got != nil || err == nil || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, %v, want %q in it", got, err, tt.text)
				}
			})
		})
	}
	t.Run("a frame far beyond what is accepted", func(t *testing.T) {
		steps := []Step{serve("healthz", plainFeatures), Accept(), Expect("read-file"), SendBytes([]byte("00200000\n")), ExpectClose()}
		bubble(t, transport.Config{MaxFileBytes: 100}, steps, func(t *testing.T, p *pod) {
			_, err := p.ReadFile(t.Context(), "a")
			errorAs[*transport.TooLargeError](t, err)
		})
	})
}

func TestReadRange(t *testing.T) {
	ranged := func(offset, length int, reply string) Step {
		return Seq(serve("healthz", features), serve("read-file", reply, Body(fmt.Sprintf(`{"path":"a","encoding":"base64","offset":%d,"length":%d}`, offset, length))))
	}
	for _, tt := range []struct {
		name           string
		offset, length int64
		steps          Step
		want           string
		size           int64
	}{
		{"inside", 5, 2, ranged(5, 2, `{"ok":true,"content":"IGI=","sizeBytes":9,"encoding":"base64","offset":5,"bytesRead":2}`), " b", 9},
		{"across the end", 5, 64, ranged(5, 64, `{"ok":true,"content":"IGI=","sizeBytes":7,"encoding":"base64","offset":5,"bytesRead":2}`), " b", 7},
		{"behind the end", 9, 4, ranged(9, 4, `{"ok":true,"content":"","sizeBytes":7,"encoding":"base64","offset":9,"bytesRead":0}`), "", 7},
		{"of no length, for the size", 0, 0, ranged(0, 0, `{"ok":true,"content":"","sizeBytes":7,"encoding":"base64","offset":0,"bytesRead":0}`), "", 7},
		{"of more than one request gives", 2, 1<<20 + 1, Seq(streaming(`{"path":"a","offset":2,"length":1048577}`), meta(8, 2, 6), data("234567"), sent(6), ExpectClose()), "234567", 8},
		{"of more than this guest gives", 2, 4, Seq(ranged(2, 4, `{"ok":false,"error":"read_file_range_too_large: 4 bytes, limit 3 (X)"}`),
			Accept(), Expect("read-file-stream", Body(`{"path":"a","offset":2,"length":4}`)), meta(8, 2, 4), data("2345"), sent(4), ExpectClose()), "2345", 8},
		{"behind the end, of more than one request gives", 9, 1 << 21, Seq(streaming(`{"path":"a","offset":9,"length":2097152}`), meta(8, 9, 0), sent(0), ExpectClose()), "", 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{tt.steps}, func(t *testing.T, p *pod) {
				got, size, err := p.ReadRange(t.Context(), "a", tt.offset, tt.length)
				if err != nil || string(got) != tt.want || size != tt.size {
					t.Errorf("got %q of %d, %v, want %q of %d", got, size, err, tt.want, tt.size)
				}
			})
		})
	}
	for _, tt := range []struct {
		name           string
		offset, length int64
		steps          Step
		text           string
	}{
		{"another place", 5, 2, ranged(5, 2, `{"ok":true,"content":"IGI=","sizeBytes":9,"encoding":"base64","offset":0,"bytesRead":2}`), "from 0 and was to be from 5"},
		{"another count", 5, 2, ranged(5, 2, `{"ok":true,"content":"IGI=","sizeBytes":9,"encoding":"base64","offset":5,"bytesRead":1}`), "1 bytes are announced and 2 came"},
		{"more than was asked for", 5, 1, ranged(5, 1, `{"ok":true,"content":"IGI=","sizeBytes":9,"encoding":"base64","offset":5,"bytesRead":2}`), "2 bytes came of 1"},
		{"more than the file has", 5, 2, ranged(5, 2, `{"ok":true,"content":"IGI=","sizeBytes":6,"encoding":"base64","offset":5,"bytesRead":2}`), "in a file of 6"},
		{"the whole file, from a guest that ignores ranges", 5, 2, ranged(5, 2, `{"ok":true,"content":"IGI=","sizeBytes":2,"encoding":"base64"}`), "a range was asked for"},
		{"a stream of more than was asked for", 0, 1 << 21, Seq(streaming(`{"path":"a","offset":0,"length":2097152}`), meta(1<<22, 0, 1<<21+1)), "2097152 were asked for"},
		{"a guest that knows no ranges", 0, 1, serve("healthz", plainFeatures), "does not announce the feature read-file-stream"},
		{"a directory", 0, 1, ranged(0, 1, `{"ok":false,"error":"EISDIR: illegal operation on a directory, read"}`), "EISDIR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, []Step{tt.steps}, func(t *testing.T, p *pod) {
				got, size, err := p.ReadRange(t.Context(), "a", tt.offset, tt.length)
				if got != nil || size != 0 || err == nil || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q of %d, %v, want %q in it", got, size, err, tt.text)
				}
			})
		})
	}
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		for _, r := range [][2]int64{{-1, 1}, {0, -1}, {1 << 53, 1}, {0, 1 << 53}} {
			if _, _, err := p.ReadRange(t.Context(), "a", r[0], r[1]); err == nil || p.dials.Load() != 0 {
				t.Errorf("range %v: %v, %d connections", r, err, p.dials.Load())
			}
		}
	})
}

// TestPathsThatTheWireWouldChange are refused here.
func TestPathsThatTheWireWouldChange(t *testing.T) {
	for name, op := range map[string]func(context.Context, *pod) error{
		"ReadFile":  func(ctx context.Context, p *pod) error { _, err := p.ReadFile(ctx, "a\xff"); return err },
		"ReadRange": func(ctx context.Context, p *pod) error { _, _, err := p.ReadRange(ctx, "a\xff", 0, 1); return err },
		"WriteFile": func(ctx context.Context, p *pod) error {
			_, err := p.WriteFile(ctx, "a\xff", strings.NewReader("x"))
			return err
		},
	} {
		steps := []Step{serve("healthz", features)}
		if name == "WriteFile" {
			steps = nil
		}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			if err := op(t.Context(), p); errorAs[*transport.FileError](t, err).Code != "the path is not valid UTF-8 and cannot be sent" {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
