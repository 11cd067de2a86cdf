package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
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
	return item{resource: k8s.Pods, name: o.Name(), uid: o.UID()}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	cluster, flags := serve(t, sim.Config{PodDelete: time.Hour})
	client := connected(t, flags).client
	pod := poolPod(t, cluster)
	other := pod
	other.uid = "another-uid"
	gone := item{resource: k8s.Pods, name: "never-was"}

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
	if err := s.gone(t.Context(), []item{{resource: k8s.Pods, name: "p", uid: "u"}}); k8s.KindOf(err) != k8s.NotServed {
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
	e := &leakError{namespace: "ns", left: []item{{resource: k8s.Pods, name: "b"}, {resource: k8s.Sandboxes, name: "b"}, {resource: k8s.SandboxClaims, name: "a"}}}
	if text := e.Error(); !strings.HasSuffix(text, "kubectl -n ns delete sandboxclaim/a") || !strings.Contains(text, "Pod b, Sandbox b, SandboxClaim a") {
		t.Errorf("the text is %q", text)
	}
}

func TestLedgerKnowsEachObjectOnce(t *testing.T) {
	claim, sandbox, pod := k8s.SandboxClaims, k8s.Sandboxes, k8s.Pods
	deleted := func(l *ledger, path string) { l.trace().Request(k8s.RequestInfo{Method: "DELETE", Path: path}) }
	for _, c := range []struct {
		sentence string
		fill     func(*ledger)
		want     []item
	}{
		{"what was given", func(l *ledger) {
			l.addReport(acquire.Report{Kind: claim.Kind, Object: "a", ObjectUID: "u", Sandbox: "w", Pod: "w", PodUID: "v"})
		}, []item{{claim, "a", "u", false}, {sandbox, "w", "", false}, {pod, "w", "v", false}}},
		{"a uid that is learned later", func(l *ledger) {
			l.add(claim, "a", "")
			l.add(claim, "a", "u")
			l.add(claim, "a", "")
			l.add(pod, "", "")
		}, []item{{claim, "a", "u", false}}},
		{"an interrupted create is known by what it deletes", func(l *ledger) {
			deleted(l, "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims/a")
			deleted(l, "/api/v1/namespaces/ns/pods/c")
			l.trace().Request(k8s.RequestInfo{Method: "GET", Path: "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims/b"})
		}, []item{{claim, "a", "", false}, {sandbox, "a", "", true}, {pod, "a", "", true}}},
		{"a direct create that failed may have a pod of its name", func(l *ledger) {
			deleted(l, "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/a")
			l.addError(&acquire.Error{Kind: sandbox.Kind, Object: "a"})
		}, []item{{sandbox, "a", "", false}, {pod, "a", "", true}}},
		{"the pod of one that was bound has the Sandbox's name", func(l *ledger) {
			l.addError(&acquire.Error{Kind: claim.Kind, Object: "a", Sandbox: "w"})
		}, []item{{claim, "a", "", false}, {sandbox, "w", "", false}, {pod, "w", "", true}}},
		{"a create that sent nothing has nothing", func(l *ledger) { l.addError(&acquire.Error{Kind: claim.Kind}) }, nil},
	} {
		var l ledger
		c.fill(&l)
		if got := l.all(); !slices.Equal(got, c.want) {
			t.Errorf("%s: the ledger holds %+v, want %+v", c.sentence, got, c.want)
		}
	}
}

// A pod that an interrupted create has left is found, though the create has never
// heard of it.
func TestFindLeaksOfADirectCreateThatFailed(t *testing.T) {
	t.Parallel()
	template := edited(map[string]any{"sim/behave": "notready"})
	cluster, flags := serve(t, sim.Config{Templates: []map[string]any{template}, Pools: []map[string]any{}, PodDelete: time.Hour})
	s := connected(t, append(flags, "-direct"))
	one := &trial{backend: s.backend, client: s.client, options: s.options, ledger: &s.ledger}
	create, interrupt := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		one.run(create)
	}()
	var pods []map[string]any
	for range 5000 {
		if pods = cluster.List("pods"); len(pods) > 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	interrupt(errInterrupt)
	<-ended
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := s.findLeaks(ctx)
	if len(pods) == 0 {
		t.Fatal("there never was a pod")
	}
	if want := "Pod " + k8s.Object(pods[0]).Name(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("findLeaks = %v; want %s to be found", err, want)
	}
}
