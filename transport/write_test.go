package transport_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

func TestWriteFileWhole(t *testing.T) {
	for _, content := range []string{"", "x", "hi there!\n", "a\xff\x00"} {
		body := fmt.Sprintf(`{"path":"src/hi.txt","content":%q,"encoding":"base64"}`, b64(content))
		reply := fmt.Sprintf(`{"ok":true,"guestBootId":"boot-1","bytesWritten":%d}`, len(content))
		bubble(t, transport.Config{}, []Step{serve("write-file", reply, Body(body))}, func(t *testing.T, p *pod) {
			n, err := p.WriteFile(t.Context(), "src/hi.txt", iotest.OneByteReader(strings.NewReader(content)))
			if n != int64(len(content)) || err != nil {
				t.Errorf("%q: %d, %v", content, n, err)
			}
			if p.dials.Load() != 1 || p.BootID() != "boot-1" {
				t.Errorf("%q: %d connections, boot id %q", content, p.dials.Load(), p.BootID())
			}
		})
	}
}

// tempFile checks that a path is a temporary file next to target, and the same
// one in every request.
func tempFile(target string) Check {
	slash := strings.LastIndex(target, "/") + 1
	pattern := regexp.MustCompile(`\A` + regexp.QuoteMeta(target[:slash]) + `\.namzu-write-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-` + regexp.QuoteMeta(target[slash:]) + `\.part\z`)
	var first any
	return func(r Request) error {
		path, _ := r.Body["path"].(string)
		if !pattern.MatchString(path) {
			return Differs(pattern, path)
		}
		if first == nil {
			first = path
		}
		if path != first {
			return Differs(first, path)
		}
		return nil
	}
}

// part takes one part of a file and answers with the file's size after it.
func part(temp Check, offset int, content, renameTo string) Step {
	checks := []Check{temp, Field("part.offset", offset), Field("content", b64(content)), Field("encoding", "base64"), Field("part.discard", nil)}
	if renameTo == "" {
		checks = append(checks, Field("part.final", false), Field("part.renameTo", nil))
	} else {
		checks = append(checks, Field("part.final", true), Field("part.renameTo", renameTo))
	}
	return serve("write-file", fmt.Sprintf(`{"ok":true,"bytesWritten":%d,"sizeBytes":%d}`, len(content), offset+len(content)), checks...)
}

func discard(temp Check) Step {
	return serve("write-file", `{"ok":true,"discarded":true}`, temp, Field("part", map[string]any{"offset": 0, "final": false, "discard": true}))
}

// writing is the content that a part takes with smallParts.
const writing = 90

func smallParts(p *pod) { p.SetPartSize(writing) }

func TestWriteFileInParts(t *testing.T) {
	content := strings.Repeat("0123456789", 30) // 300 bytes
	for _, tt := range []struct {
		name   string
		size   int
		reader func(io.Reader) io.Reader
	}{
		{"a byte more than one request takes", writing + 1, iotest.DataErrReader},
		{"two full parts", 2 * writing, iotest.DataErrReader},
		{"two full parts, from a reader that tells its end late", 2 * writing, iotest.HalfReader},
		{"three parts and a rest, byte by byte", 3*writing + 7, iotest.OneByteReader},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temp := tempFile("data/big.bin")
			steps := []Step{serve("healthz", features)}
			for at := 0; at < tt.size; at += writing {
				end, target := at+writing, ""
				if end >= tt.size {
					end, target = tt.size, "data/big.bin"
				}
				steps = append(steps, part(temp, at, content[at:end], target))
			}
			bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
				smallParts(p)
				n, err := p.WriteFile(t.Context(), "data/big.bin", tt.reader(strings.NewReader(content[:tt.size])))
				if n != int64(tt.size) || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			})
		})
	}
	t.Run("exactly what one request takes is whole", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{serve("write-file", `{"ok":true,"bytesWritten":90}`, Field("part", nil), Field("path", "data/big.bin"))}, func(t *testing.T, p *pod) {
			smallParts(p)
			if n, err := p.WriteFile(t.Context(), "data/big.bin", strings.NewReader(content[:writing])); n != writing || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
		})
	})
}

// TestTempNames looks at the names that parts are collected under.
func TestTempNames(t *testing.T) {
	long := strings.Repeat("x", 95) + "é" + strings.Repeat("y", 100)
	for target, want := range map[string]string{
		"a":              `\.namzu-write-[0-9a-f-]{36}-a\.part`,
		"/workspace/d/a": `/workspace/d/\.namzu-write-[0-9a-f-]{36}-a\.part`,
		"d/":             `d/\.namzu-write-[0-9a-f-]{36}-\.part`,
		"d/" + long:      `d/\.namzu-write-[0-9a-f-]{36}-x{95}\.part`,
	} {
		got := ""
		steps := []Step{serve("healthz", features), Accept(), Expect("write-file", func(r Request) error { got = r.Body["path"].(string); return nil }),
			answer(`{"ok":false,"error":"EIO: x"}`), serve("write-file", `{"ok":true,"discarded":true}`)}
		bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
			smallParts(p)
			p.WriteFile(t.Context(), target, strings.NewReader(strings.Repeat("x", 1000)))
			if !regexp.MustCompile(`\A` + want + `\z`).MatchString(got) {
				t.Errorf("%q: got %q, want %s", target, got, want)
			}
		})
	}
}

// TestWriteFileFails has a failure in each step of a write in parts. What was
// written is discarded, and the first error is what comes back.
func TestWriteFileFails(t *testing.T) {
	content := strings.Repeat("0123456789", 30)
	takes := Seq(Accept(), Expect("write-file", Field("part.offset", writing)))
	file := func(code string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*transport.FileError](err)
			return ok && e.Code == code && e.Path == "data/big.bin"
		}
	}
	protocol := func(err error) bool { _, ok := errors.AsType[*transport.ProtocolError](err); return ok }
	lost := func(err error) bool { _, ok := errors.AsType[*transport.LostError](err); return ok }
	for _, tt := range []struct {
		name   string
		steps  []Step // after the first part, if that is not among them
		reader io.Reader
		is     func(error) bool
		text   string
		took   time.Duration
	}{
		{"the first part is refused", nil, nil,
			file("path escapes the workspace"), "transport: write-file data/big.bin: path escapes the workspace", 0},
		{"a later part is refused", []Step{takes, answer(`{"ok":false,"error":"write_part_short_write: wrote 4 of 90"}`)}, nil,
			file("write_part_short_write"), "wrote 4 of 90", 0},
		{"the token is refused for a later part", []Step{takes, answer(`{"ok":false,"error":"unauthorized"}`)}, nil, isUnauthorized, "", 0},
		{"a part was not written whole", []Step{takes, answer(`{"ok":true,"bytesWritten":89,"sizeBytes":179}`)}, nil, protocol, "89 bytes were written of 90", 0},
		{"the file has another size", []Step{takes, answer(`{"ok":true,"bytesWritten":90,"sizeBytes":90}`)}, nil, protocol, "not of 180 bytes", 0},
		{"the file's size is not told", []Step{takes, answer(`{"ok":true,"bytesWritten":90}`)}, nil, protocol, "not of 180 bytes", 0},
		{"the answer is lost", []Step{takes, Close()}, nil, lost, "", 0},
		{"the answer never comes", []Step{takes, ExpectClose()}, nil, lost, "no byte came for 1m0s", time.Minute},
		{"the reader fails", []Step{}, io.MultiReader(strings.NewReader(content[:writing+1]), failing{}),
			func(err error) bool { return errors.Is(err, errFailing) }, "transport: write-file data/big.bin: reading what to write: failing", 0},
		{"the discard fails as well", []Step{takes, answer(`{"ok":false,"error":"EIO: x"}`), Accept(), Expect("write-file", Field("part.discard", true)), Reset()}, nil, file("EIO"), "EIO: x", 0},
		{"the discard is not answered", []Step{takes, answer(`{"ok":false,"error":"EIO: x"}`), Accept(), Expect("write-file", Field("part.discard", true)), ExpectClose()}, nil, file("EIO"), "EIO: x", 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temp := tempFile("data/big.bin")
			steps := []Step{serve("healthz", features), part(temp, 0, content[:writing], ""), Seq(tt.steps...)}
			if tt.steps == nil {
				steps = []Step{serve("healthz", features), serve("write-file", `{"ok":false,"error":"path escapes the workspace"}`, temp)}
			}
			if !strings.HasPrefix(tt.name, "the discard") {
				steps = append(steps, discard(temp))
			}
			bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
				smallParts(p)
				r := tt.reader
				if r == nil {
					r = strings.NewReader(content)
				}
				n, err := p.WriteFile(t.Context(), "data/big.bin", r)
				if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) || n == 300 {
					t.Errorf("got %d, %T %v, want %q in it", n, err, err, tt.text)
				}
				p.took(t, tt.took)
			})
		})
	}
}

// TestWriteFileEndedByTheContext discards all the same, in a time of its own.
func TestWriteFileEndedByTheContext(t *testing.T) {
	temp := tempFile("data/big.bin")
	steps := []Step{
		serve("healthz", features), part(temp, 0, strings.Repeat("x", writing), ""),
		Accept(), Expect("write-file", temp), ExpectClose(),
		Accept(), Expect("write-file", temp, Field("part.discard", true)), Delay(2 * time.Second), answer(`{"ok":true,"discarded":true}`),
	}
	bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
		smallParts(p)
		_, err := p.WriteFile(endAfter(t, 3*time.Second), "data/big.bin", strings.NewReader(strings.Repeat("x", 300)))
		if err != errCause {
			t.Errorf("got %v, want the cause itself", err)
		}
		p.took(t, 5*time.Second)
	})
	t.Run("while it reads", func(t *testing.T) {
		bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
			slow := reader(func(b []byte) (int, error) { time.Sleep(time.Second); return copy(b, "x"), nil })
			if _, err := p.WriteFile(endAfter(t, time.Minute), "a", slow); err != errCause || p.dials.Load() != 0 {
				t.Errorf("got %v after %d connections", err, p.dials.Load())
			}
		})
	})
}

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

func TestWriteFileLimits(t *testing.T) {
	t.Run("exactly the limit", func(t *testing.T) {
		bubble(t, transport.Config{MaxFileBytes: 10}, []Step{serve("write-file", `{"ok":true,"bytesWritten":10}`)}, func(t *testing.T, p *pod) {
			if _, err := p.WriteFile(t.Context(), "a", strings.NewReader("0123456789")); err != nil {
				t.Error(err)
			}
		})
	})
	for name, r := range map[string]func() io.Reader{
		"a reader that says its size": func() io.Reader { return strings.NewReader("0123456789a") },
		"a reader that does not":      func() io.Reader { return io.MultiReader(strings.NewReader("0123456789a")) },
	} {
		t.Run("a byte more, of "+name, func(t *testing.T) {
			bubble(t, transport.Config{MaxFileBytes: 10}, nil, func(t *testing.T, p *pod) {
				_, err := p.WriteFile(t.Context(), "a", r())
				if e := errorAs[*transport.TooLargeError](t, err); e.Limit != 10 || p.dials.Load() != 0 {
					t.Errorf("got %v after %d connections", err, p.dials.Load())
				}
			})
		})
	}
	t.Run("a file that grows while it is written is discarded", func(t *testing.T) {
		temp := tempFile("data/big.bin")
		steps := []Step{serve("healthz", features), part(temp, 0, strings.Repeat("x", writing), ""), discard(temp)}
		bubble(t, transport.Config{MaxFileBytes: 2*writing - 1}, steps, func(t *testing.T, p *pod) {
			smallParts(p)
			endless := reader(func(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil })
			_, err := p.WriteFile(t.Context(), "data/big.bin", endless)
			errorAs[*transport.TooLargeError](t, err)
		})
	})
	t.Run("a guest without parts and a file that needs them", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{serve("healthz", plainFeatures)}, func(t *testing.T, p *pod) {
			smallParts(p)
			_, err := p.WriteFile(t.Context(), "data/big.bin", strings.NewReader(strings.Repeat("x", writing+1)))
			if errorAs[*transport.TooLargeError](t, err); !strings.Contains(err.Error(), "write-file-parts") {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("a path that leaves no room", func(t *testing.T) {
		bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
			_, err := p.WriteFile(t.Context(), strings.Repeat("a/", 4<<20), strings.NewReader("x"))
			if errorAs[*transport.TooLargeError](t, err); p.dials.Load() != 0 {
				t.Errorf("%d connections", p.dials.Load())
			}
		})
	})
}

// TestWriteSizes writes as it is done in earnest. Both sides hold a request in
// memory, so none is larger than it must be; and none exceeds what a guest takes
// of somebody it does not know yet.
func TestWriteSizes(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name     string
		size     int
		features string // "": not asked for
		parts    int    // 0: whole
		most     int    // bytes of a request
	}{
		{"what fits a part is whole", 3 * mib / 4, "", 0, mib + mib/16},
		{"more goes in parts", 3*mib/4 + 1, features, 2, mib + mib/16},
		{"much goes in as many as it takes", 9 * mib, features, 12, mib + mib/16},
		{"a guest that takes no parts gets what fits a request", 5 * mib, plainFeatures, 0, 8 * mib},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			take := func(final any) Step {
				var before int
				return Seq(Accept(), Expect("write-file", Field("part.final", final), func(r Request) error {
					if len(r.Payload) > tt.most {
						return Differs(fmt.Sprintf("at most %d bytes", tt.most), len(r.Payload))
					}
					before = got.Len()
					b, err := base64.StdEncoding.DecodeString(r.Body["content"].(string))
					got.Write(b)
					return err
				}), SendFunc(func() any {
					return fmt.Sprintf(`{"ok":true,"bytesWritten":%d,"sizeBytes":%d}`, got.Len()-before, got.Len())
				}), CloseWrite(), ExpectClose())
			}
			var steps []Step
			if tt.features != "" {
				steps = append(steps, serve("healthz", tt.features))
			}
			for i := range tt.parts {
				steps = append(steps, take(i == tt.parts-1))
			}
			if tt.parts == 0 {
				steps = append(steps, take(nil))
			}
			content := bytes.Repeat([]byte("0123456789abcdef"), tt.size/16+1)[:tt.size]
			bubble(t, transport.Config{}, steps, func(t *testing.T, p *pod) {
				n, err := p.WriteFile(t.Context(), "data/big.bin", bytes.NewReader(content))
				if n != int64(len(content)) || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			})
			if !bytes.Equal(got.Bytes(), content) {
				t.Errorf("%d bytes arrived, or others", got.Len())
			}
		})
	}
	t.Run("and no more", func(t *testing.T) {
		bubble(t, transport.Config{}, []Step{serve("healthz", plainFeatures)}, func(t *testing.T, p *pod) {
			_, err := p.WriteFile(t.Context(), "data/big.bin", bytes.NewReader(make([]byte, 7*mib)))
			if e := errorAs[*transport.TooLargeError](t, err); e.Limit < 5*mib {
				t.Errorf("got %v, want a limit of nearly 6 MiB", e)
			}
		})
	})
}

// TestPeerThatDoesNotReadTheRequest closes while the request is on its way.
func TestPeerThatDoesNotReadTheRequest(t *testing.T) {
	unsent := func(err error) bool {
		lost, ok := errors.AsType[*transport.LostError](err)
		return ok && !lost.Sent && transport.SafeToRetry(err) && strings.Contains(err.Error(), "had no effect")
	}
	for _, tt := range []struct {
		name  string
		steps []Step
		is    func(error) bool
		took  time.Duration
	}{
		{"without a word", []Step{Accept(), Delay(time.Second), Close()}, unsent, time.Second},
		{"with a reset", []Step{Accept(), Delay(time.Second), Reset()}, unsent, time.Second},
		{"after it has refused the token", []Step{Accept(), Send(`{"ok":false,"error":"unauthorized"}`), Delay(time.Second), Close()}, isUnauthorized, time.Second},
		{"after it has fenced itself", []Step{Accept(), Send(`{"ok":false,"error":"agent_retiring"}`), Delay(time.Second), Close()},
			func(err error) bool { _, ok := errors.AsType[*transport.RetiringError](err); return ok }, time.Second},
		{"after it has found it too large", []Step{Accept(), Send(`{"ok":false,"error":"frame_too_large: announced 1"}`), Delay(time.Second), Close()},
			func(err error) bool {
				e, ok := errors.AsType[*transport.FileError](err)
				return ok && e.Code == "frame_too_large"
			}, time.Second},
		{"after nonsense", []Step{Accept(), SendBytes([]byte("nonsense!")), Delay(time.Second), Close()}, unsent, time.Second},
		{"after an answer to what it has not read", []Step{Accept(), Send(`{"ok":true,"bytesWritten":100000}`), Delay(time.Second), Close()}, unsent, time.Second},
		{"and does nothing else either", []Step{Accept(), Delay(90 * time.Second)}, unsent, time.Minute + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, transport.Config{}, tt.steps, func(t *testing.T, p *pod) {
				p.net.Buffer = 1000
				_, err := p.WriteFile(t.Context(), "a", strings.NewReader(strings.Repeat("x", 100_000)))
				if err == nil || !tt.is(err) {
					t.Errorf("got %T %v", err, err)
				}
				p.took(t, tt.took)
				time.Sleep(time.Minute) // the script goes on to its end
			})
		})
	}
}
