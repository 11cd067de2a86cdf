package main

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
)

func TestParseRunRefuses(t *testing.T) {
	for _, c := range []struct {
		sentence string
		args     string
		words    string // of the refusal, separated by |
	}{
		{"an unknown flag is named", "-frobnicate", "-frobnicate"},
		{"a secret given to an unknown flag is not repeated", "-token=hunter2", "no flag -token"},
		{"a flag without its value is named", "-server", "-server"},
		{"a number that is none is named with its flag", "-n many", "-n"},
		{"a stray argument is named", "-n 2 extra", `"extra"|flags only`},
		{"two targets are named", "-server https://a -kubectl", "-server and -kubectl|leave one out"},
		{"a simulation is a target as well", "-sim -in-cluster", "-sim and -in-cluster"},
		{"no target at all", "-sim=false", "-server"},
		{"a CA without a server", "-ca ca.crt", "-ca goes with -server"},
		{"a CA beside a kubeconfig, which has its own", "-kubectl -ca ca.crt", "-ca goes with -server"},
		{"a token without a server", "-token-file t", "-token-file goes with -server"},
		{"a token in a pod, which has its own", "-in-cluster -token-cmd t", "-token-cmd goes with"},
		{"two tokens", "-server https://a -token-file f -token-cmd c", "-token-file and -token-cmd"},
		{"an empty server", "-server=", "-server is empty"},
		{"an empty kubeconfig", "-kubeconfig-json=", "-kubeconfig-json is empty"},
		{"a pool and no pool", "-direct -pool pool", "-direct|-pool"},
		{"an empty pool", "-pool=", "-pool|-direct"},
		{"a pool that cannot be the name of one", "-pool ../x", "-pool"},
		{"a template that cannot be the name of one", "-template Task", "-template"},
		{"an empty namespace", "-namespace=", "-namespace"},
		{"a namespace that cannot be the name of one", "-namespace a.b", "-namespace"},
		{"no sandbox at all", "-n 0", "-n is 0"},
		{"more sandboxes than anybody needs", "-n 100000", "-n is 100000"},
		{"none at a time", "-parallel 0", "-parallel is 0"},
		{"a file that is smaller than its ranges", "-file-bytes 10", "-file-bytes is 10"},
		{"a port that is none", "-agent-port 70000", "-agent-port is 70000"},
		{"an address mode that is none", "-agent-address dns", "-agent-address|service|pod-ip"},
		{"an ingress mode that is none", "-ingress maybe", "-ingress"},
		{"a TTL that no create fits into", "-ttl 6s", "-ttl is 6s"},
		{"a TTL of a month", "-ttl 720h", "-ttl is 720h"},
		{"no ready timeout", "-ready-timeout 0s", "-ready-timeout is 0s"},
		{"a ready timeout that the TTL has no room for", "-ttl 1m -ready-timeout 50s", "-ttl 1m0s|-ready-timeout 50s|-ttl 1m10s or more"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			o, err := parseRun(strings.Fields(c.args))
			if _, ok := errors.AsType[*usageError](err); !ok {
				t.Fatalf("parseRun(%q) = %+v, %v; want a usage error", c.args, o, err)
			}
			for word := range strings.SplitSeq(c.words, "|") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("parseRun(%q): %q does not say %q", c.args, err, word)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("parseRun(%q): %q shows a secret or more than one line", c.args, err)
			}
		})
	}
}

func TestParseRun(t *testing.T) {
	plain := options{
		target: target{kind: targetSim}, template: "task", anyTemplate: true, pool: "pool",
		n: 1, parallel: 1, address: acquire.ByPodIP, port: 1024, fileBytes: defaultFile, readyTimeout: time.Minute, ttl: 5 * time.Minute,
	}
	for _, c := range []struct {
		sentence string
		args     string
		want     func(*options)
	}{
		{"no flags mean one sandbox of the simulated cluster's pool", "", func(*options) {}},
		{"-sim is the default", "-sim", func(*options) {}},
		{"-direct needs no pool, and its template is the one that is named", "-direct", func(o *options) { o.pool, o.anyTemplate = "", false }},
		{"a template that is named is insisted on", "-template task", func(o *options) { o.anyTemplate = false }},
		{"no more at a time than there are", "-n 3 -parallel 8 -json -watch", func(o *options) { o.n, o.parallel, o.json, o.watch = 3, 3, true, true }},
		{"a server with all that goes with it", "-server https://a:6443 -ca c -token-cmd t -namespace ns -agent-address service -agent-port 9", func(o *options) {
			o.target = target{kind: targetServer, server: "https://a:6443", caFile: "c", tokenCommand: "t"}
			o.namespace, o.address, o.port = "ns", acquire.ByService, 9
		}},
		{"a kubeconfig with a token command of its own", "-kubeconfig-json - -token-cmd t", func(o *options) {
			o.target = target{kind: targetKubeconfig, kubeconfig: "-", tokenCommand: "t"}
		}},
		{"a short TTL shortens the ready timeout", "-ttl 40s", func(o *options) { o.ttl, o.readyTimeout = 40*time.Second, 20*time.Second }},
		{"ingress unverified must be said", "-ingress unverified", func(o *options) { o.unverified = true }},
		{"ingress verified may be said", "-ingress verified", func(*options) {}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, err := parseRun(strings.Fields(c.args))
			if err != nil || got != want {
				t.Errorf("parseRun(%q)\n got %+v, %v\nwant %+v", c.args, got, err, want)
			}
		})
	}
}

func TestParseRunHelp(t *testing.T) {
	if _, err := parseRun([]string{"-n", "2", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parseRun(-n 2 -h) = %v, want flag.ErrHelp", err)
	}
}

// Every TTL that is accepted leaves room for the ready timeout made from it.
func TestFitReadyTimeout(t *testing.T) {
	for ttl := leastTTL; ttl < 3*time.Minute; ttl += 250 * time.Millisecond {
		ready, err := fitReadyTimeout(ttl, 0, false)
		if err != nil || ready < leastReady || leastTTLFor(ready) > ttl {
			t.Errorf("fitReadyTimeout(%v) = %v, %v; it needs a TTL of %v", ttl, ready, err, leastTTLFor(ready))
		}
	}
	if ready, err := fitReadyTimeout(time.Hour, 20*time.Minute, true); err != nil || ready != 20*time.Minute {
		t.Errorf("a ready timeout that fits is changed: %v, %v", ready, err)
	}
}

func TestPick(t *testing.T) {
	for _, c := range []struct {
		args string
		name string // of the command
		rest string
		text string // of the error
	}{
		{"", "run", "", ""},
		{"-n 2", "run", "-n 2", ""},
		{"run -n 2", "run", "-n 2", ""},
		{"sim -listen :0", "sim", "-listen :0", ""},
		{"guest health", "guest", "health", ""},
		{"bench", "", "", `no command "bench"`},
		{"help bench", "", "", `no command "bench"`},
		{"help", "", "", "help"},
		{"-h", "", "", "help"},
		{"help guest", "guest", "", "help"},
	} {
		got, rest, err := pick(strings.Fields(c.args))
		name := ""
		if got != nil {
			name = got.name
		}
		if name != c.name || strings.Join(rest, " ") != c.rest || (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("pick(%q) = %q, %q, %v; want %q, %q and %q", c.args, name, rest, err, c.name, c.rest, c.text)
		}
	}
}
