package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/probe"
	"github.com/sandlot-go/sandlot/transport"
)

func good(name string, ms int) step {
	return step{name: name, ok: true, took: time.Duration(ms) * time.Millisecond, detail: "fine"}
}

func bad(name string, ms int) step {
	return step{name: name, took: time.Duration(ms) * time.Millisecond, failure: &failure{Stage: name, Reason: "r", Message: name + " broke", step: name}}
}

func TestAggregate(t *testing.T) {
	once := []step{good(stepConnect, 1), good(stepLeakCheck, 9)}
	for _, c := range []struct {
		sentence string
		once     []step
		sets     [][]step
		want     []string // name ok ms detail
		failure  string   // message
	}{
		{"one sandbox keeps its details", once,
			[][]step{{good(stepAcquire, 20), good(stepRelease, 3)}},
			[]string{"connect true 1 fine", "acquire true 20 fine", "release true 3 fine", "leak-check true 9 fine"}, ""},
		{"one that failed keeps only the steps that ran", once,
			[][]step{{bad(stepAcquire, 20)}},
			[]string{"connect true 1 fine", "acquire false 20 ", "leak-check true 9 fine"}, "acquire broke"},
		{"several show the slowest, the median and how many were fine", once,
			[][]step{{good(stepAcquire, 30)}, {good(stepAcquire, 20)}, {good(stepAcquire, 100)}},
			[]string{"connect true 1 fine", "acquire true 100 3 of 3 ok, p50 30 ms, max 100 ms", "leak-check true 9 fine"}, ""},
		{"one of several that failed fails the step and is quoted", once,
			[][]step{{good(stepAcquire, 30), bad(stepExec, 1)}, {bad(stepAcquire, 20)}},
			[]string{"connect true 1 fine", "acquire false 30 1 of 2 ok, p50 20 ms, max 30 ms; first failure: acquire broke",
				"exec false 1 0 of 1 ok, p50 1.0 ms, max 1.0 ms; first failure: exec broke", "leak-check true 9 fine"}, "exec broke"},
		{"a sandbox that was never begun is a failure", once,
			[][]step{{good(stepAcquire, 30)}, nil},
			[]string{"connect true 1 fine", "acquire true 30 1 of 1 ok, p50 30 ms, max 30 ms", "leak-check true 9 fine"}, "interrupted before every sandbox was created"},
		{"what is left over is a failure when nothing else is", []step{good(stepConnect, 1), bad(stepLeakCheck, 9)},
			[][]step{{good(stepAcquire, 30)}},
			[]string{"connect true 1 fine", "acquire true 30 fine", "leak-check false 9 "}, "leak-check broke"},
		{"without a connection there is nothing else", []step{bad(stepConnect, 1)}, nil, []string{"connect false 1 "}, "connect broke"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			steps, _ := aggregate(c.once, c.sets)
			var got []string
			for _, s := range steps {
				got = append(got, strings.Join([]string{s.name, map[bool]string{true: "true", false: "false"}[s.ok], strings.TrimSuffix(s.took.String(), "ms"), s.detail}, " "))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(c.want, "\n "))
			}
			message := ""
			if f := firstFailure(c.once, c.sets); f != nil {
				message = f.Message
			}
			if message != c.failure {
				t.Errorf("failure is %q, want %q", message, c.failure)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	report := func(ms int) acquire.Report {
		return acquire.Report{Phases: []acquire.Phase{{Stage: acquire.StagePost, Duration: time.Duration(ms) * time.Millisecond}}}
	}
	if got := median(nil); got != nil {
		t.Errorf("median of none = %v", got)
	}
	if got := median([]acquire.Report{report(90), report(10), report(20), report(30)}); got.Total() != 20*time.Millisecond {
		t.Errorf("median of 90, 10, 20, 30 ms = %v, want 20 ms", got.Total())
	}
}

func TestExplain(t *testing.T) {
	refused := &transport.DialError{Op: "execute", Addr: "tcp:10.0.0.1:1024", Err: errors.New("connection refused")}
	for _, c := range []struct {
		sentence  string
		step      string
		err       error
		stage     string
		reason    string
		retryable bool
		next      string // a word of it
	}{
		{"a failed create keeps its stage and reason", stepAcquire,
			&acquire.Error{Stage: acquire.StageBind, Reason: acquire.ReasonCapacity, Retryable: true}, "bind", "capacity", true, ""},
		{"a privileged guest needs no advice of ours", stepAcquire,
			&acquire.Error{Stage: acquire.StageProbe, Reason: acquire.ReasonProbe, Err: &probe.Error{Reason: probe.ReasonPrivileged}}, "probe", "probe", false, ""},
		{"a guest that never answered may be out of reach", stepAcquire,
			&acquire.Error{Stage: acquire.StageProbe, Reason: acquire.ReasonProbe, Retryable: true, Err: &probe.Error{Reason: probe.ReasonFailed}}, "probe", "probe", true, "reachable"},
		{"a guest that cannot be dialled", stepExec, refused, "exec", "unreachable", true, "-agent-address"},
		{"a service name that only the cluster's DNS knows", stepExec, &transport.UnresolvableError{Host: "a.b.svc"}, "exec", "unresolvable", false, "pod-ip"},
		{"a guest that refuses a path", stepWrite, &transport.FileError{Op: "write-file", Code: "EACCES"}, "write", "file", false, ""},
		{"a program that is not there", stepExec, &transport.StartError{Name: "sh"}, "exec", "start", false, ""},
		{"a guest that restarted", stepExec, &transport.LostError{Op: "execute", Err: errors.New("reset")}, "exec", "lost", true, ""},
		{"a guest of another protocol", stepExec, &transport.ProtocolError{Op: "execute", Err: errors.New("no frame")}, "exec", "protocol", false, ""},
		{"a program that fails", stepExec, &transport.ExitError{Result: transport.Result{ExitCode: 3}}, "exec", "exit", false, ""},
		{"an error that nobody knows", stepExec, errors.New("odd"), "exec", "failed", false, ""},
		{"a wrong token", stepConnect, &k8s.APIError{Kind: k8s.Unauthorized, Code: 401}, "connect", "unauthorized", false, "expired"},
		{"a pool that is not there", stepConnect, &k8s.APIError{Kind: k8s.NotFound, Code: 404}, "connect", "not-found", false, "-direct"},
		{"an account that cannot renew", stepRenew, &k8s.APIError{Kind: k8s.Forbidden, Code: 403}, "renew", "forbidden", false, "docs/rbac.md"},
		{"an API server that is overloaded", stepRenew, &k8s.APIError{Kind: k8s.TooManyRequests, Code: 429}, "renew", "too-many-requests", true, ""},
		{"a wrong result", stepRead, wrong("bytes differ"), "read", "wrong-result", false, ""},
		{"a step that took too long", stepExec, &budgetError{stepExec, time.Second}, "exec", "timeout", true, ""},
		{"a run that was interrupted", stepExec, &interruptedError{errors.New("terminated signal received")}, "exec", "interrupted", true, ""},
		{"an object that is on its way out", stepLeakCheck, &leakError{deleting: true}, "leak-check", "leak", true, ""},
		{"a file that is not there", stepConnect, &configError{errors.New("no such file")}, "connect", "configuration", false, ""},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			f := explain(c.step, c.err)
			if f.Stage != c.stage || f.Reason != c.reason || f.Retryable != c.retryable || f.Message != c.err.Error() {
				t.Errorf("explain = %+v; want %s, %s, %t, %q", f, c.stage, c.reason, c.retryable, c.err)
			}
			if (f.Next == "") != (c.next == "") || !strings.Contains(f.Next, c.next) {
				t.Errorf("advice is %q, want %q in it", f.Next, c.next)
			}
		})
	}
}

func TestTemplateOf(t *testing.T) {
	pool := k8s.Object{"spec": map[string]any{"sandboxTemplateRef": map[string]any{"name": "python"}}}
	for _, c := range []struct {
		sentence string
		pool     k8s.Object
		o        options
		want     string // "" for a refusal
	}{
		{"the pool's own template is taken when none was named", pool, options{pool: "p", template: "task", anyTemplate: true}, "python"},
		{"the same one may be named", pool, options{pool: "p", template: "python"}, "python"},
		{"another one is refused", pool, options{pool: "p", template: "task"}, ""},
		{"a pool that names none changes nothing", k8s.Object{}, options{pool: "p", template: "task", anyTemplate: true}, "task"},
	} {
		got, err := templateOf(c.pool, c.o)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v", c.sentence, got, err)
		}
	}
}

func TestUntilLater(t *testing.T) {
	expiry := time.Date(2026, 1, 1, 12, 5, 0, 0, time.UTC)
	for _, c := range []struct {
		now  string
		want time.Duration
	}{
		{"2026-01-01T12:00:00.300Z", 700*time.Millisecond + tickMargin},
		{"2026-01-01T12:00:00.999Z", time.Millisecond + tickMargin},
		{"2026-01-01T12:00:02Z", 0},
	} {
		now, err := time.Parse(time.RFC3339Nano, c.now)
		if err != nil {
			t.Fatal(err)
		}
		wait := untilLater(expiry, 5*time.Minute, now)
		if wait != c.want {
			t.Errorf("untilLater at %s = %v, want %v", c.now, wait, c.want)
		}
		if stamp := now.Add(wait + 5*time.Minute).Truncate(time.Second); !stamp.After(expiry) {
			t.Errorf("at %s a stamp made after %v is %v, not later than %v", c.now, wait, stamp, expiry)
		}
	}
}

func TestRangesCoverBeginMiddleAndEnd(t *testing.T) {
	for _, size := range []int64{leastFile, defaultFile} {
		got := ranges(size)
		if got[0].offset != 0 || got[len(got)-1].offset+got[len(got)-1].length <= size {
			t.Errorf("ranges(%d) = %v; want the begin, and an end that reaches beyond the file", size, got)
		}
		for _, r := range got {
			if r.offset < 0 || r.offset >= size {
				t.Errorf("range %v of %d bytes lies outside the file", r, size)
			}
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31mb\r\nc\u202ed é"); strings.ContainsAny(got, "\x1b\r\n\u202e") || !strings.Contains(got, "é") {
		t.Errorf("printable left %q", got)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 ms", 340 * time.Microsecond: "0.3 ms", 12 * time.Millisecond: "12 ms", 999 * time.Millisecond: "999 ms", 9960 * time.Microsecond: "10 ms",
		999600 * time.Microsecond: "1.00 s",
		1234 * time.Millisecond:   "1.23 s", 75 * time.Second: "75.00 s",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
}
