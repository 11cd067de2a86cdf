package sim_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/transport/wire"
)

// ask makes one request of a guest and returns all frames of the answer.
func ask(ctx context.Context, c *sim.Cluster, host string, req wire.Request) (frames []string, err error) {
	conn, err := c.DialPod(ctx, "tcp", net.JoinHostPort(host, "1024"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	payload, err := wire.Marshal(req)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire.AppendFrame(nil, payload)); err != nil {
		return nil, err
	}
	r := wire.NewFrameReader(conn, wire.MaxFrame)
	for {
		frame, err := r.Next()
		if err != nil || len(frame) == 0 {
			if len(frames) > 0 {
				err = nil
			}
			return frames, err
		}
		frames = append(frames, string(frame))
	}
}

// run executes a shell command in a pod's guest.
func (e *env) run(host, token, command string) string {
	e.Helper()
	frames, err := ask(e.Context(), e.Cluster, host, wire.Request{Op: wire.OpExecute, Token: token, Body: wire.ExecuteBody{Command: "/bin/sh", Args: []string{"-c", command}}})
	if err != nil {
		e.Fatalf("run %q at %s: %v", command, host, err)
	}
	return strings.Join(frames, "\n")
}

// bound is the pod of a claim.
func (e *env) bound(claim string) object {
	e.Helper()
	pod := e.Get("pods", text(e.Get("sandboxclaims", claim), "status", "sandbox", "name"))
	if pod == nil {
		e.Fatalf("claim %s is not bound: %s", claim, encode(e.Get("sandboxclaims", claim)))
	}
	return pod
}

func TestGuestOfAPod(t *testing.T) {
	bubble(t, sim.Config{}, func(e *env) {
		e.claim("c", "pool", nil)
		e.sleep(50 * time.Millisecond)
		pod := e.bound("c")
		ip, uid := text(pod, "status", "podIP"), text(pod, "metadata", "uid")
		frames, err := ask(t.Context(), e.Cluster, ip, wire.Request{Op: wire.OpHealth})
		if err != nil || !strings.Contains(frames[0], `"ok":true`) {
			t.Fatalf("health: %q, %v", frames, err)
		}
		if got := e.run(ip, uid, "echo $((40+2)) $HOME"); !strings.Contains(got, `42 `) || !strings.Contains(got, "/pods/"+uid+"/home") || !strings.Contains(got, `"exitCode":0`) {
			t.Errorf("program: %s", got)
		}
		if got := e.run(ip, "nonsense", "true"); !strings.Contains(got, "unauthorized") {
			t.Errorf("with a wrong token: %s", got)
		}
		got := e.run(ip, uid, "grep -E '^(Cap|NoNew)' /proc/self/status")
		if strings.Count(got, `0000000000000000`) < 4 || !strings.Contains(got, `NoNewPrivs:\t1`) {
			t.Errorf("a pod's program is privileged: %s", got)
		}
		// The name of the Service is the same guest's.
		frames, err = ask(t.Context(), e.Cluster, text(pod, "metadata", "name")+".sandbox-sim.svc.cluster.local", wire.Request{Op: wire.OpHealth})
		if err != nil || !strings.Contains(frames[0], `"ok":true`) {
			t.Errorf("by name: %q, %v", frames, err)
		}
		e.deleted(claimsPath + "/c")
		e.sleep(time.Second)
		if _, err := ask(t.Context(), e.Cluster, ip, wire.Request{Op: wire.OpHealth}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the deletion: %v, want ECONNREFUSED", err)
		}
		_, err = ask(t.Context(), e.Cluster, text(pod, "metadata", "name")+".sandbox-sim.svc.cluster.local", wire.Request{Op: wire.OpHealth})
		if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound {
			t.Errorf("its name after the deletion: %v, want not found", err)
		}
	})
}

func TestPrivilegedPod(t *testing.T) {
	template := sim.Template("task")
	at(template, "spec", "podTemplate", "metadata").(object)["annotations"] = object{"sim/privileged": "true"}
	bubble(t, sim.Config{Templates: []map[string]any{template}}, func(e *env) {
		pod := e.List("pods")[0]
		if got := e.run(text(pod, "status", "podIP"), text(pod, "metadata", "uid"), "grep NoNewPrivs /proc/self/status"); !strings.Contains(got, `NoNewPrivs:\t0`) {
			t.Errorf("program: %s", got)
		}
	})
}

func TestGuestConfiguration(t *testing.T) {
	template := sim.Template("task")
	container := at(template, "spec", "podTemplate", "spec", "containers").([]any)[0].(object)
	container["env"] = append(container["env"].([]any), object{"name": "NAMZU_SANDBOX_MAX_TIMEOUT_MS", "value": "400000"}, object{"name": "GREETING", "value": "hello"})
	var seen guest.Config
	cfg := sim.Config{Templates: []map[string]any{template}, Pools: []map[string]any{sim.Pool("pool", "task", 1)}, Guest: func(pod map[string]any, c *guest.Config) {
		seen = *c
		c.Environ = append(c.Environ, "POD="+text(pod, "metadata", "name"))
	}}
	bubble(t, cfg, func(e *env) {
		pod := e.List("pods")[0]
		if seen.MaxTimeout != 400*time.Second || seen.Token != text(pod, "metadata", "uid") || !seen.Confine {
			t.Errorf("configuration: %v, MaxTimeout %v", seen, seen.MaxTimeout)
		}
		if got := e.run(text(pod, "status", "podIP"), text(pod, "metadata", "uid"), "echo $GREETING $POD"); !strings.Contains(got, "hello "+text(pod, "metadata", "name")) {
			t.Errorf("program: %s", got)
		}
	})
}

func TestRestartAndKillGuest(t *testing.T) {
	bubble(t, sim.Config{Pools: []map[string]any{sim.Pool("pool", "task", 1)}}, func(e *env) {
		pod := e.List("pods")[0]
		name, ip, uid := text(pod, "metadata", "name"), text(pod, "status", "podIP"), text(pod, "metadata", "uid")
		boot := func() string {
			frames, err := ask(t.Context(), e.Cluster, ip, wire.Request{Op: wire.OpReserve, Token: uid, Body: wire.ReserveBody{}})
			if err != nil {
				t.Fatal(err)
			}
			_, after, _ := strings.Cut(frames[0], `"guestBootId":"`)
			return after[:36]
		}
		first := boot()
		e.run(ip, uid, "echo kept > file")
		if err := e.RestartGuest(name); err != nil {
			t.Fatal(err)
		}
		e.sleep(50 * time.Millisecond)
		if second := boot(); second == first {
			t.Errorf("the boot id is %s as before", second)
		}
		if got := e.run(ip, uid, "cat file"); !strings.Contains(got, "kept") {
			t.Errorf("the workspace after the restart: %s", got)
		}
		pod = e.Get("pods", name)
		if podState(pod) != "Running Ready=True ip running " || at(at(pod, "status", "containerStatuses").([]any)[0], "restartCount") != int64(1) {
			t.Errorf("the pod after the restart: %s %s", podState(pod), encode(at(pod, "status", "containerStatuses")))
		}
		if err := e.KillGuest(name); err != nil {
			t.Fatal(err)
		}
		e.sleep(time.Second)
		if _, err := ask(t.Context(), e.Cluster, ip, wire.Request{Op: wire.OpHealth}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the kill: %v, want ECONNREFUSED", err)
		}
		if got := podState(e.Get("pods", name)); got != "Running Ready=True ip running " {
			t.Errorf("the pod after the kill: %s", got)
		}
		if err := e.RestartGuest("nope"); err == nil || !strings.Contains(err.Error(), "no guest") {
			t.Errorf("restart of nothing: %v", err)
		}
	})
}

// TestDiskIsTheWorkspace: what a guest writes there is there after a resume.
func TestDiskIsTheWorkspace(t *testing.T) {
	volumes := []any{object{"metadata": object{"name": "d"}, "spec": object{"accessModes": []any{"ReadWriteOnce"}}}}
	bubble(t, sim.Config{Pools: []map[string]any{}}, func(e *env) {
		e.sandbox("s", object{"volumeClaimTemplates": volumes})
		e.sleep(time.Second)
		pod := e.Get("pods", "s")
		e.run(text(pod, "status", "podIP"), text(pod, "metadata", "uid"), "echo kept > file")
		for _, mode := range []string{"Suspended", "Running"} {
			e.merge(sandboxesPath+"/s", `{"spec":{"operatingMode":"`+mode+`"}}`)
			e.sleep(time.Second)
		}
		pod = e.Get("pods", "s")
		if got := e.run(text(pod, "status", "podIP"), text(pod, "metadata", "uid"), "cat file"); !strings.Contains(got, "kept") {
			t.Errorf("after the resume: %s", got)
		}
	})
}
