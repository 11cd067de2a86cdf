package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/internal/sim"
)

func TestRunInTheSimulatedCluster(t *testing.T) {
	t.Parallel()
	cases := []struct {
		sentence string
		args     string
		words    []string
	}{
		{"without flags", "", []string{"simulated cluster", "one sandbox from pool pool", "warm", "18 of 18 steps ok", "network policy  ingress verified",
			"offers everything that there is", "a second follower", "80 by 24 and then 100 by 40", "read, attached to from an offset and killed", "fetched without a difference",
			"a port where nobody listens is refused", "on the guest's disk", "1 program that ran ended"}},
		{"without a pool", "run -sim -direct -file-bytes 4000", []string{"direct from template task", "started from template task", "18 of 18 steps ok"}},
		{"by the name of a Service", "-direct -agent-address service -file-bytes 4000", []string{".svc.cluster.local:1024", "18 of 18 steps ok"}},
		{"by the address that a claim shows where it has no name", "-agent-address service -file-bytes 4000", []string{"18 of 18 steps ok"}},
		{"with a lease as short as can be", "-ttl 7s -file-bytes 4000", []string{"18 of 18 steps ok"}},
		{"with a watch", "-watch -file-bytes 4000", []string{"18 of 18 steps ok"}},
		{"several at once", "-n 3 -parallel 2 -file-bytes 4000", []string{"3 sandboxes", "3 of 3 ok, p50", "3 of 3 sandboxes ok", "3 SandboxClaims"}},
	}
	var all [][]string
	for _, c := range cases {
		all = append(all, strings.Fields(c.args))
	}
	runs := together(t, all...)
	for i, c := range cases {
		t.Run(c.sentence, func(t *testing.T) {
			r := runs[i]
			r.expect(t, exitOK, c.words...)
			if r.stderr != "" {
				t.Errorf("a run that is ok writes to standard error: %q", r.stderr)
			}
		})
	}
}

// decode reads the one document on standard output, strictly.
func decode(t testing.TB, r ran) document {
	t.Helper()
	var d document
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("standard output is not the document: %v\n%v", err, r)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("standard output holds more than one document\n%v", r)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.stdout), &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"ok", "target", "steps", "acquire", "error"} {
		if _, there := keys[key]; !there {
			t.Errorf("the document has no key %q\n%s", key, r.stdout)
		}
	}
	if d.OK != (r.code == exitOK) || d.OK != (d.Error == nil) {
		t.Errorf("ok is %t with exit code %d and error %+v", d.OK, r.code, d.Error)
	}
	return d
}

func (d document) stepNames(ok bool) []string {
	var names []string
	for _, s := range d.Steps {
		if s.OK == ok {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestRunAsJSON(t *testing.T) {
	t.Parallel()
	cases := []struct {
		sentence string
		args     []string
		warm     bool
		phases   []string
	}{
		{"from the pool", nil, true, []string{"bind", "pod", "post", "probe", "verify"}},
		{"direct", []string{"-direct"}, false, []string{"bind", "pod", "post", "probe", "template", "verify"}},
		{"several", []string{"-n", "2", "-parallel", "2"}, true, []string{"bind", "pod", "post", "probe", "verify"}},
	}
	var all [][]string
	for _, c := range cases {
		all = append(all, append([]string{"-json", "-file-bytes", "4000"}, c.args...))
	}
	runs := together(t, all...)
	for i, c := range cases {
		t.Run(c.sentence, func(t *testing.T) {
			r := runs[i]
			r.expect(t, exitOK, "acquire")
			d := decode(t, r)
			if got := d.stepNames(true); !slices.Equal(got, stepOrder) {
				t.Errorf("steps are %q, want %q", got, stepOrder)
			}
			for _, s := range d.Steps {
				if s.MS < 0 || s.Detail == "" || (d.N > 1) != (s.P50 != nil) && s.Name != stepConnect && s.Name != stepLeakCheck {
					t.Errorf("step %+v", s)
				}
			}
			a := d.Acquire
			if a == nil {
				t.Fatal("acquire is null")
			}
			var phases []string
			for phase, ms := range a.Phases {
				phases = append(phases, phase)
				if ms < 0 || ms > a.MS {
					t.Errorf("phase %s took %v of %v ms", phase, ms, a.MS)
				}
			}
			slices.Sort(phases)
			if !slices.Equal(phases, c.phases) {
				t.Errorf("phases are %q, want %q", phases, c.phases)
			}
			if a.Warm != c.warm || a.Requests < 3 || a.Retries != 0 || a.Sandbox == "" || a.Pod == "" || d.Target != "sim" || d.NOK != d.N {
				t.Errorf("document %+v, acquire %+v", d, a)
			}
			if !strings.Contains(r.stderr, "leak-check") {
				t.Errorf("there is no progress on standard error: %q", r.stderr)
			}
		})
	}
}

// edited is the stock template with annotations on its pods.
func edited(annotations map[string]any) map[string]any {
	template := sim.Template("task")
	data, err := json.Marshal(template)
	if err != nil {
		panic(err)
	}
	var o map[string]any
	if err := json.Unmarshal(data, &o); err != nil {
		panic(err)
	}
	pod := o["spec"].(map[string]any)["podTemplate"].(map[string]any)
	pod["metadata"].(map[string]any)["annotations"] = annotations
	return o
}

func deny(verb, resource string) func(string, string, string) bool {
	return func(v, r, _ string) bool { return v != verb || r != resource }
}

func TestRunThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		config   sim.Config
		args     []string
		stage    string
		reason   string
		failed   []string // steps
		words    []string
	}{
		{"a privileged pod is refused by the probe and given back",
			sim.Config{Templates: []map[string]any{edited(map[string]any{"sim/privileged": "true"})}}, nil,
			"probe", "probe", []string{stepAcquire}, []string{"PRIVILEGED", "securityContext", "CapBnd"}},
		{"so is one that was created directly",
			sim.Config{Templates: []map[string]any{edited(map[string]any{"sim/privileged": "true"})}}, []string{"-direct"},
			"probe", "probe", []string{stepAcquire}, []string{"PRIVILEGED"}},
		{"a pool that is not there", sim.Config{}, []string{"-pool", "swimming"},
			stepConnect, "not-found", []string{stepConnect}, []string{"swimming", "-pool", "-direct"}},
		{"a template that is not there", sim.Config{}, []string{"-direct", "-template", "none"},
			stepConnect, "not-found", []string{stepConnect}, []string{"none", "-template"}},
		{"another template than the pool's", sim.Config{Templates: []map[string]any{sim.Template("task"), sim.Template("other")}}, []string{"-template", "other"},
			stepConnect, "configuration", []string{stepConnect}, []string{"template task", "other"}},
		{"a cluster without the controller", sim.Config{Unserved: []string{"sandboxwarmpools"}}, nil,
			stepConnect, "not-served", []string{stepConnect}, []string{"agent-sandbox"}},
		{"an account that may not claim", sim.Config{Allow: deny("create", "sandboxclaims")}, nil,
			"post", "forbidden", []string{stepAcquire}, []string{"docs/rbac.md"}},
		{"an account that may not renew", sim.Config{Allow: deny("patch", "sandboxclaims")}, nil,
			stepRenew, "forbidden", []string{stepRenew}, []string{"docs/rbac.md"}},
		{"an account that may not delete leaves a claim, and says so", sim.Config{Allow: deny("delete", "sandboxclaims")}, nil,
			stepRelease, "forbidden", []string{stepRelease, stepLeakCheck}, []string{"docs/rbac.md", "kubectl -n sandbox-sim delete sandboxclaim/namzu-task-"}},
		{"an account that may read nothing", sim.Config{Allow: func(verb, _, _ string) bool { return verb != "get" }}, nil,
			stepConnect, "forbidden", []string{stepConnect}, []string{"docs/rbac.md"}},
		{"an image that cannot be had", sim.Config{Templates: []map[string]any{edited(map[string]any{"sim/behave": "imagepull"})}}, []string{"-direct", "-ready-timeout", "500ms"},
			"bind", "image-pull", []string{stepAcquire}, []string{"ErrImagePull"}},
		{"one of several that fails does not stop the others", sim.Config{Fault: failOne("POST", "/sandboxclaims")}, []string{"-n", "3", "-parallel", "2"},
			"post", "api-unreachable", []string{stepAcquire}, []string{"2 of 3 ok"}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(c.args, "-direct") {
				c.config.Pools = []map[string]any{}
			}
			cluster, flags := serve(t, c.config)
			r := smoke(t, slices.Concat([]string{"-json"}, flags, c.args)...)
			r.expect(t, exitFailed)
			d := decode(t, r)
			if d.Error == nil || d.Error.Stage != c.stage || d.Error.Reason != c.reason {
				t.Fatalf("error is %+v, want %s at stage %s\n%v", d.Error, c.reason, c.stage, r)
			}
			if got := d.stepNames(false); !slices.Equal(got, c.failed) {
				t.Errorf("steps %q failed, want %q", got, c.failed)
			}
			if last := d.Steps[len(d.Steps)-1].Name; (last == stepLeakCheck) == slices.Contains(c.failed, stepConnect) {
				t.Errorf("the last step is %s", last)
			}
			if c.stage != stepRelease {
				expectNothingLeft(t, cluster)
			}
			for _, word := range c.words {
				if !strings.Contains(r.stdout, word) {
					t.Errorf("the document does not say %q\n%v", word, r)
				}
			}
			if strings.Contains(r.stdout+r.stderr, cluster.Token()) {
				t.Errorf("the output shows the token\n%v", r)
			}
		})
	}
}

func TestRunThatFailsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cluster, flags := serve(t, sim.Config{Allow: deny("create", "sandboxclaims")})
	smoke(t, append(flags, "-pool", "swimming")...).expect(t, exitFailed,
		"connect", "FAILED at connect: not-found", "swimming", "use -direct", "Trying again will not help")
	smoke(t, flags...).expect(t, exitFailed,
		"FAILED at acquire, stage post: forbidden (2 of 18 steps ok", "docs/rbac.md", "leak-check")
	expectNothingLeft(t, cluster)
}

// failOne answers the first such request with 500 and no other.
func failOne(method, suffix string) func(*sim.Request) *sim.Fault {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	return func(r *sim.Request) *sim.Fault {
		if r.Method != method || !strings.HasSuffix(r.Path, suffix) {
			return nil
		}
		select {
		case <-first:
			return &sim.Fault{Code: http.StatusInternalServerError, Body: []byte("broken")}
		default:
			return nil
		}
	}
}

// An account with the fewest rights that a pool-only host needs does everything
// but see the pool and list claims, and the report says so. It cannot verify
// network policies, which must be told.
func TestRunWithFewRights(t *testing.T) {
	t.Parallel()
	cluster, flags := serve(t, sim.Config{Allow: func(verb, resource, _ string) bool {
		switch verb + " " + resource {
		case "create sandboxclaims", "get sandboxclaims", "patch sandboxclaims", "delete sandboxclaims", "get pods":
			return true
		}
		return false
	}})
	smoke(t, flags...).expect(t, exitFailed, "policy", "rant list on networkpolicies")
	smoke(t, append(flags, "-ingress", "unverified")...).expect(t, exitOK, "network policy  not verified", "may not read SandboxWarmPools", "may not list claims", "may not read Sandboxes")
	expectNothingLeft(t, cluster)
}

func TestRunWithAWrongToken(t *testing.T) {
	t.Parallel()
	_, flags := serve(t, sim.Config{})
	flags[slices.Index(flags, "-token-file")] = "-token-cmd"
	const secret = "hunter2-hunter2"
	flags[slices.Index(flags, "-token-cmd")+1] = "printf " + secret
	for _, args := range [][]string{flags, append([]string{"-json"}, flags...)} {
		r := smoke(t, args...)
		r.expect(t, exitFailed, "unauthorized", "401")
		if strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("the output shows the token\n%v", r)
		}
	}
}

// Outside of a pod there is no cluster to be in.
func TestRunOutsideOfAPod(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	smoke(t, "-in-cluster").expect(t, exitFailed, "FAILED at connect: configuration", "KUBERNETES_SERVICE_HOST")
}

func TestRunWithoutAServer(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sentence string
		args     []string
		code     int
		words    []string
	}{
		{"nobody listens", []string{"-server", "https://127.0.0.1:1", "-token-file", token}, exitFailed, []string{"FAILED at connect: unreachable", "refused", "Check the server's URL"}},
		{"the token's file is not there", []string{"-server", "https://127.0.0.1:1", "-token-file", "/nowhere/token"}, exitFailed, []string{"credential", "/nowhere/token"}},
		{"the CA's file is not there", []string{"-server", "https://127.0.0.1:1", "-token-file", token, "-ca", "/nowhere/ca"}, exitFailed, []string{"configuration", "/nowhere/ca"}},
		{"the kubeconfig is not there", []string{"-kubeconfig-json", "/nowhere/config"}, exitFailed, []string{"configuration", "/nowhere/config"}},
		{"there is no credential", []string{"-server", "https://127.0.0.1:1"}, exitUsage, []string{"-token-file or -token-cmd"}},
		{"the URL is none", []string{"-server", "kubernetes", "-token-file", token}, exitUsage, []string{"-server", "https://"}},
		{"plain http would show the token", []string{"-server", "http://10.0.0.1", "-token-file", token}, exitUsage, []string{"-server", "https"}},
		{"a password in the URL is not repeated", []string{"-server", "https://u:hunter2@a", "-token-file", token}, exitUsage, []string{"-server"}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			r := smoke(t, c.args...)
			r.expect(t, c.code, c.words...)
			if strings.Contains(r.stdout+r.stderr, "hunter2") {
				t.Errorf("the output shows the secret\n%v", r)
			}
			if c.code == exitUsage && (r.stdout != "" || strings.Count(r.stderr, "\n") != 1) {
				t.Errorf("a usage error is not one line on standard error\n%v", r)
			}
		})
	}
}

// A run that is interrupted gives back what it has, whatever it was doing.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sentence string
		args     []string
		at       func(*sim.Request) bool
		step     string
	}{
		{"while a claim binds", nil, func(r *sim.Request) bool { return r.Method == "POST" }, stepAcquire},
		{"while a Sandbox starts", []string{"-direct"}, func(r *sim.Request) bool { return r.Method == "POST" }, stepAcquire},
		{"while it is renewed", nil, func(r *sim.Request) bool { return r.Method == "PATCH" }, stepRenew},
		{"while one of several is created", []string{"-n", "4", "-parallel", "2"}, func(r *sim.Request) bool { return r.Method == "POST" }, stepAcquire},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancelCause(t.Context())
			defer interrupt(nil)
			cluster, flags := serve(t, sim.Config{Fault: func(r *sim.Request) *sim.Fault {
				if c.at(r) {
					interrupt(errors.New("terminated signal received"))
				}
				return nil
			}})
			r := smokeWith(ctx, neverEnding{t}, nil, slices.Concat([]string{"-json"}, flags, c.args)...)
			r.expect(t, exitFailed)
			d := decode(t, r)
			if d.Error == nil || d.Error.Stage != c.step || d.Error.Reason != "interrupted" || !strings.Contains(d.Error.Message, "terminated signal received") {
				t.Errorf("error is %+v, want interrupted at %s\n%v", d.Error, c.step, r)
			}
			if !slices.Contains(d.stepNames(true), stepLeakCheck) {
				t.Errorf("there was no leak check that went well\n%v", r)
			}
			expectNothingLeft(t, cluster)
		})
	}
}
