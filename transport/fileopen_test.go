package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/transport"
	. "github.com/sandlot-go/sandlot/transport/wiretest"
)

// openingFile takes the request for a file as a stream.
func openingFile(body string) Step {
	return Seq(serve("healthz", features), Accept(), Expect("read-file-stream", Token(token), Body(body)))
}

func fileData(text string) string { return `{"type":"data","data":"` + b64(text) + `"}` }

func TestOpen(t *testing.T) {
	end := Seq(Send(`{"type":"end","bytesSent":6}`), ExpectClose())
	bubble(t, transport.Config{MaxFileBytes: 1}, []Step{openingFile(`{"path":"f"}`), Send(`{"type":"meta","sizeBytes":6,"offset":0,"length":6}`), Send(fileData("one")), Delay(time.Minute), Send(fileData("two")), end}, func(t *testing.T, p *pod) {
		f, err := p.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute) // which is no fault of the guest's
		if got, err := io.ReadAll(f); string(got) != "onetwo" || err != nil || f.Size() != 6 {
			t.Errorf("got %q of %d, %v", got, f.Size(), err)
		}
		if n, err := f.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d, %v", n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != fs.ErrClosed {
			t.Errorf("a second Close: %v", err)
		}
	})
	bubble(t, transport.Config{}, []Step{openingFile(`{"path":"f","offset":2,"length":3}`), Send(`{"type":"meta","sizeBytes":9,"offset":2,"length":3}`), Send(fileData("two")), Send(`{"type":"end","bytesSent":3}`), ExpectClose()}, func(t *testing.T, p *pod) {
		f, err := p.OpenRange(t.Context(), "f", 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); string(got) != "two" || err != nil || f.Size() != 9 {
			t.Errorf("got %q of %d, %v", got, f.Size(), err)
		}
		f.Close()
	})
	for _, tt := range []struct {
		name  string
		steps Step
		check func(t *testing.T, err error)
	}{
		{"a file that is not there", answer(`{"type":"error","error":"ENOENT: no such file or directory, open 'f'"}`), func(t *testing.T, err error) {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
		}},
		{"the wrong token", answer(`{"ok":false,"error":"unauthorized"}`), func(t *testing.T, err error) { errorAs[*transport.UnauthorizedError](t, err) }},
		{"data first", Seq(Send(fileData("x")), ExpectClose()), func(t *testing.T, err error) { errorAs[*transport.ProtocolError](t, err) }},
		{"a cut", Close(), func(t *testing.T, err error) { errorAs[*transport.LostError](t, err) }},
	} {
		bubble(t, transport.Config{}, []Step{openingFile(`{"path":"f"}`), tt.steps}, func(t *testing.T, p *pod) {
			f, err := p.Open(t.Context(), "f")
			if f != nil {
				t.Errorf("%s: a reader with %v", tt.name, err)
			}
			tt.check(t, err)
		})
	}
	bubble(t, transport.Config{}, nil, func(t *testing.T, p *pod) {
		if _, err := p.OpenRange(t.Context(), "f", -1, 1); err == nil {
			t.Error("a negative offset is accepted")
		}
	})
	bubble(t, transport.Config{}, []Step{serve("healthz", `{"ok":true,"protocolVersion":2,"features":[]}`)}, func(t *testing.T, p *pod) {
		_, err := p.Open(t.Context(), "f")
		errorAs[*transport.UnsupportedError](t, err)
	})
}

// TestOpenCutAtEveryByte never takes a part of a file for the whole.
func TestOpenCutAtEveryByte(t *testing.T) {
	stream := frames(fileData("one"), fileData("two"), `{"type":"end","bytesSent":6}`)
	for n := range stream {
		bubble(t, transport.Config{}, []Step{openingFile(`{"path":"f"}`), Send(`{"type":"meta","sizeBytes":6,"offset":0,"length":6}`), SendBytes(stream[:n]), Close()}, func(t *testing.T, p *pod) {
			f, err := p.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if _, ok := errors.AsType[*transport.LostError](err); !ok || !strings.HasPrefix("onetwo", string(got)) {
				t.Errorf("after %d bytes: %q, %v", n, got, err)
			}
			f.Close()
		})
	}
}

// TestOpenIsEnded ends a reading from each side while nothing comes, and while
// nobody reads.
func TestOpenIsEnded(t *testing.T) {
	script := []Step{openingFile(`{"path":"f"}`), Send(`{"type":"meta","sizeBytes":6,"offset":0,"length":6}`), ExpectClose()}
	for name, tt := range map[string]struct {
		end  func(p *pod, f *transport.FileReader)
		want error
	}{
		"by its context":        {nil, errCause},
		"by Close":              {func(p *pod, f *transport.FileReader) { f.Close() }, fs.ErrClosed},
		"by Close of the Agent": {func(p *pod, f *transport.FileReader) { p.Close() }, transport.ErrClosed},
	} {
		for _, reads := range []bool{true, false} {
			bubble(t, transport.Config{}, script, func(t *testing.T, p *pod) {
				ctx, cancel := context.WithCancelCause(t.Context())
				f, err := p.Open(ctx, "f")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, func() {
					if tt.end == nil {
						cancel(errCause)
					} else {
						tt.end(p, f)
					}
				})
				if !reads {
					time.Sleep(2 * time.Second)
				}
				if _, err := f.Read(make([]byte, 1)); !errors.Is(err, tt.want) {
					t.Errorf("%s, reads %v: got %v, want %v", name, reads, err, tt.want)
				}
				p.Close() // although the reader may be open
			})
		}
	}
	bubble(t, transport.Config{}, []Step{openingFile(`{"path":"f"}`), Send(`{"type":"meta","sizeBytes":6,"offset":0,"length":6}`), Trickle(frames(fileData("onetwo")), time.Minute-1), Send(`{"type":"end","bytesSent":6}`), ExpectClose()}, func(t *testing.T, p *pod) {
		f, err := p.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(f); b.String() != "onetwo" || err != nil {
			t.Errorf("a trickle: %q, %v", &b, err)
		}
	})
}
