package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
)

// liveFlags lead to the real API server that the RIG_ variables name. Without
// them the test is skipped.
func liveFlags(t testing.TB) []string {
	t.Helper()
	server := os.Getenv("RIG_SERVER")
	if server == "" {
		t.Skip("no RIG_SERVER: the live tier needs a real API server, see the README")
	}
	return []string{"-server", server, "-ca", os.Getenv("RIG_CA"), "-namespace", os.Getenv("RIG_NAMESPACE"), "-token-file", os.Getenv("RIG_TOKEN_FILE")}
}

// liveClient is a client of that server.
func liveClient(t testing.TB) *k8s.Client {
	t.Helper()
	liveFlags(t)
	token, err := os.ReadFile(os.Getenv("RIG_TOKEN_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := k8s.New(k8s.Config{
		Server: os.Getenv("RIG_SERVER"), CAFile: os.Getenv("RIG_CA"), Namespace: os.Getenv("RIG_NAMESPACE"),
		Token: func(context.Context) (string, error) { return strings.TrimSpace(string(token)), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// liveGuest is the guest of a real pod, which is given back after the test.
func liveGuest(t *testing.T) guestAt {
	t.Helper()
	backend, err := acquire.New(liveClient(t), acquire.Config{Template: os.Getenv("RIG_TEMPLATE"), Pool: os.Getenv("RIG_POOL"), AgentAddress: acquire.ByPodIP})
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := backend.Create(t.Context(), acquire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sandbox.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := backend.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	r := sandbox.Report()
	return guestAt{r.Address, r.PodUID}
}

// A run is the same at a real server: every step, nothing left.
func TestLiveRun(t *testing.T) {
	for name, args := range map[string][]string{"pool": nil, "direct": {"-direct"}, "several, watched": {"-n", "4", "-parallel", "2", "-watch", "-file-bytes", "4000"}} {
		t.Run(name, func(t *testing.T) {
			r := smoke(t, append(append([]string{"-json"}, liveFlags(t)...), args...)...)
			r.expect(t, exitOK)
			d := decode(t, r)
			for _, s := range d.Steps {
				t.Logf("%-10s %7.1f ms  %s", s.Name, s.MS, s.Detail)
				if !s.OK || s.Skipped {
					t.Errorf("step %+v", s)
				}
			}
			if len(d.Steps) != len(stepOrder) {
				t.Errorf("%d steps, want %d", len(d.Steps), len(stepOrder))
			}
		})
	}
}
