package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
)

// connected is a session at the end of its connect step.
func connected(t *testing.T, flags []string) *session {
	t.Helper()
	o, err := parseRun(flags)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{options: o, streams: streams{environ: os.Environ()}, id: "smoke-test"}
	if _, err := s.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func poolPod(t *testing.T, c *sim.Cluster) item {
	t.Helper()
	pods := c.List("pods")
	if len(pods) == 0 {
		t.Fatal("the pool has no pod")
	}
	o := k8s.Object(pods[0])
	return item{k8s.Pods, o.Name(), o.UID()}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	cluster, flags := serve(t, sim.Config{PodDelete: time.Hour})
	client := connected(t, flags).client
	pod := poolPod(t, cluster)
	other := pod
	other.uid = "another-uid"
	gone := item{k8s.Pods, "never-was", ""}

	s := sweep{client: client, unread: map[string]bool{}}
	if err := s.gone(t.Context(), []item{gone, other}); err != nil {
		t.Errorf("an object that is not there, and one whose name another one has: %v", err)
	}
	look := func() *leakError {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		requests := 0
		err := s.gone(k8s.WithTrace(ctx, &k8s.Trace{Request: func(k8s.RequestInfo) {
			if requests++; requests == 4 {
				cancel() // in the third look; the first was for both
			}
		}}), []item{gone, pod})
		leak, ok := errors.AsType[*leakError](err)
		if !ok || len(leak.left) != 1 || leak.left[0] != pod {
			t.Fatalf("a pod that stays: %v; want a leak of %v alone", err, pod)
		}
		for _, word := range []string{pod.name, client.Namespace(), "kubectl -n " + client.Namespace() + " delete pod/" + pod.name} {
			if !strings.Contains(leak.Error(), word) {
				t.Errorf("%q does not say %q", leak, word)
			}
		}
		return leak
	}
	if look().deleting {
		t.Error("a pod that nobody has deleted is said to be on its way out")
	}
	if err := cluster.Delete("pods", pod.name); err != nil {
		t.Fatal(err)
	}
	if !look().deleting {
		t.Error("a pod that is being deleted is not said to be on its way out")
	}
}

// An answer that only says that the path is not served is no proof that
// anything is gone.
func TestSweepDoesNotBelieveA404ThatNamesNothing(t *testing.T) {
	t.Parallel()
	_, flags := serve(t, sim.Config{Fault: func(r *sim.Request) *sim.Fault {
		if r.Resource == "pods" {
			return &sim.Fault{Code: 404, Body: []byte("404 page not found"), ContentType: "text/plain"}
		}
		return nil
	}})
	s := sweep{client: connected(t, flags).client, unread: map[string]bool{}}
	if err := s.gone(t.Context(), []item{{k8s.Pods, "p", "u"}}); k8s.KindOf(err) != k8s.NotServed {
		t.Errorf("gone = %v, want the 404 itself", err)
	}
}

func TestFindLeaksLooksForTheLabelOfTheRun(t *testing.T) {
	t.Parallel()
	cluster, flags := serve(t, sim.Config{})
	for name, id := range map[string]string{"ours": "smoke-test", "theirs": "smoke-other"} {
		err := cluster.Apply("sandboxclaims", map[string]any{
			"metadata": map[string]any{"name": name, "labels": map[string]any{hostLabel: id}},
			"spec":     map[string]any{"warmPoolRef": map[string]any{"name": "pool"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	detail, err := connected(t, flags).findLeaks(t.Context())
	leak, ok := errors.AsType[*leakError](err)
	if !ok || len(leak.left) != 1 || leak.left[0].name != "ours" {
		t.Errorf("findLeaks = %q, %v; want the claim named ours alone", detail, err)
	}
}

// Whoever deletes the owner deletes all that is left.
func TestLeakErrorNamesTheOwnersToDelete(t *testing.T) {
	e := &leakError{namespace: "ns", left: []item{{k8s.Pods, "b", ""}, {k8s.Sandboxes, "b", ""}, {k8s.SandboxClaims, "a", ""}}}
	if text := e.Error(); !strings.HasSuffix(text, "kubectl -n ns delete sandboxclaim/a") || !strings.Contains(text, "Pod b, Sandbox b, SandboxClaim a") {
		t.Errorf("the text is %q", text)
	}
}

func TestLedgerKnowsEachObjectOnce(t *testing.T) {
	var l ledger
	l.trace().Request(k8s.RequestInfo{Method: "DELETE", Path: "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims/a"})
	l.trace().Request(k8s.RequestInfo{Method: "GET", Path: "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims/b"})
	l.trace().Request(k8s.RequestInfo{Method: "DELETE", Path: "/api/v1/namespaces/ns/pods/c"})
	l.add(k8s.SandboxClaims, "a", "uid")
	l.add(k8s.SandboxClaims, "a", "")
	l.add(k8s.Sandboxes, "a", "")
	l.add(k8s.Pods, "", "")
	got := l.all()
	if len(got) != 2 || got[0] != (item{k8s.SandboxClaims, "a", "uid"}) || got[1] != (item{k8s.Sandboxes, "a", ""}) {
		t.Errorf("the ledger holds %v, want claim a with its uid and Sandbox a", got)
	}
}
