//go:build linux

package guest_test

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"github.com/sandlot-go/sandlot/internal/guest"
)

// TestOutputCutOff ends outputs that another process holds: what was written
// before is read, however late its reader is, and what comes for ever is not.
func TestOutputCutOff(t *testing.T) {
	for _, tt := range []struct {
		name    string
		forever bool
	}{{"a full pipe", false}, {"a pipe that is filled again and again", true}} {
		t.Run(tt.name, func(t *testing.T) {
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			written := bytes.Repeat([]byte("output\n"), 60_000/7)
			if _, err := to.Write(written); err != nil {
				t.Fatal(err)
			}
			var others sync.WaitGroup
			if tt.forever {
				others.Go(func() {
					for {
						if _, err := to.Write(written); err != nil {
							return
						}
					}
				})
			}
			busy, release := make(chan struct{}), make(chan struct{})
			var got []byte
			var reader sync.WaitGroup
			reader.Go(func() {
				first := sync.OnceFunc(func() { close(busy); <-release })
				guest.ReadPipe(from, func(data []byte) {
					first()
					got = append(got, data...)
				})
			})
			<-busy
			more := []byte("and what comes while its reader is busy\n")
			if !tt.forever {
				if _, err := to.Write(more); err != nil {
					t.Fatal(err)
				}
			}
			guest.CutOff(from)
			close(release)
			reader.Wait()
			if want := append(written, more...); !tt.forever && !bytes.Equal(got, want) {
				t.Errorf("read %d bytes, want %d", len(got), len(want))
			}
			if tt.forever && (!bytes.HasPrefix(got, written) || len(got) > 2<<20) {
				t.Errorf("read %d bytes", len(got))
			}
			from.Close()
			others.Wait()
			to.Close()
		})
	}
}
