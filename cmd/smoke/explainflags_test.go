package main

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/sandlot-go/sandlot/policy"
)

func TestParseExplainRefuses(t *testing.T) {
	for _, c := range []struct {
		sentence string
		args     string
		words    string // of the refusal, separated by |
	}{
		{"no policies", "-labels a=b", "-f|-server"},
		{"an unknown flag", "-f x -frobnicate", "-frobnicate"},
		{"a simulated cluster holds nothing to explain", "-sim", "no flag -sim"},
		{"a file without its flag", "x.json", `"x.json"|-f`},
		{"an empty file", "-f=", "-f is empty"},
		{"standard input twice", "-f - -f -", "twice"},
		{"files and a cluster", "-f x -in-cluster", "-f|-in-cluster|leave one out"},
		{"two clusters", "-server https://a -kubectl -pod p", "-server and -kubectl"},
		{"a cluster that is none", "-kubectl=false -pod p", "-kubectl=false leaves no cluster"},
		{"a CA for files", "-f x -ca ca.crt", "-ca goes with a cluster"},
		{"a token for files", "-f x -token-cmd t", "-token-cmd goes with a cluster"},
		{"a CA for a kubeconfig, which has its own", "-kubectl -ca ca.crt -pod p", "-ca goes with -server"},
		{"a cluster without a pod", "-kubectl", "-pod|-labels"},
		{"an empty pod", "-f x -pod=", "-pod"},
		{"a pod that cannot be the name of one", "-f x -pod ../x", "-pod"},
		{"a namespace that cannot be the name of one", "-f x -namespace a.b", "-namespace"},
		{"a template that cannot be the name of one", "-f x -template A", "-template"},
		{"a label without a value", "-f x -labels a", `"a" is not KEY=VALUE`},
		{"a label that no pod can have", "-f x -labels a=-", "-labels"},
		{"a label twice", "-f x -labels a=b,a=b", "a is there twice"},
		{"an engine that is none", "-f x -engine calico", "-engine|core or cilium"},
		{"a port that is none", "-f x -agent-port 0", "-agent-port is 0"},
		{"a destination without a port", "-f x -to 10.0.0.1", "-to|ADDR:PORT/PROTOCOL"},
		{"a destination of IPv6 without brackets", "-f x -to 2001:db8::1:443", "-to|[2001:db8::7]"},
		{"a destination by name", "-f x -to git.example:443", "-to-name"},
		{"a destination with a zone", "-f x -to [fe80::1%eth0]:443", "-to"},
		{"port 0", "-f x -to 10.0.0.1:0", `port "0"`},
		{"a port by name", "-f x -to 10.0.0.1:https", `port "https"`},
		{"a protocol that is none", "-f x -to 10.0.0.1:1/ICMP", `protocol "ICMP"`},
		{"no protocol after all", "-f x -to 10.0.0.1:1/", `protocol ""`},
		{"a source with a port", "-f x -from 10.0.0.1:443", "-from"},
		{"a name without a destination", "-f x -to-name git.example", "-to-name goes with -to"},
		{"outside of nothing", "-f x -outside", "-outside"},
		{"a destination and a policy", "-f x -to 10.0.0.1:1 -policy no-network", "-policy|-to"},
		{"a policy that is none", "-f x -policy deny", "-policy|deny-all"},
		{"a policy that asks a program", "-f x -policy resolver", "-policy static"},
		{"exceptions of nothing", "-f x -except 10.0.0.0/8", "-except goes with -policy public-internet"},
		{"hosts of nothing", "-f x -hosts a.example", "-hosts goes with -policy static"},
		{"hosts without Cilium", "-f x -policy static -hosts a.example", "-engine cilium"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			o, err := parseExplain(strings.Fields(c.args))
			if _, ok := errors.AsType[*usageError](err); !ok {
				t.Fatalf("parseExplain(%q) = %+v, %v; want a usage error", c.args, o, err)
			}
			for word := range strings.SplitSeq(c.words, "|") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("parseExplain(%q): %q does not say %q", c.args, err, word)
				}
			}
		})
	}
}

func TestParseExplain(t *testing.T) {
	plain := explainOptions{
		files: []string{"x"}, against: &policy.Egress{Policy: policy.DenyAll{}, Engine: policy.Core},
		egress: true, ingress: true, agentPort: 1024, engine: policy.Core,
	}
	endpoint := func(addr string, port int, protocol string) *policy.Endpoint {
		return &policy.Endpoint{Addr: netip.MustParseAddr(addr), Port: port, Protocol: protocol}
	}
	for _, c := range []struct {
		sentence string
		args     string
		want     func(*explainOptions)
	}{
		{"both directions, and deny-all", "-f x", func(*explainOptions) {}},
		{"a destination alone", "-f x -to 10.0.0.1:443", func(o *explainOptions) {
			o.to, o.against, o.ingress = endpoint("10.0.0.1", 443, "TCP"), nil, false
		}},
		{"a source alone", "-f x -from [2001:db8::1]", func(o *explainOptions) { o.from, o.egress = endpoint("2001:db8::1", 0, ""), false }},
		{"both", "-f x -from 10.0.0.2 -to [2001:db8::1]:53/udp -to-name N.example -outside", func(o *explainOptions) {
			o.from, o.to, o.against = endpoint("10.0.0.2", 0, ""), endpoint("2001:db8::1", 53, "UDP"), nil
			o.from.Outside, o.to.Outside, o.to.Name = true, true, "N.example"
		}},
		{"a source and a policy", "-f x -from 10.0.0.2 -policy no-network", func(o *explainOptions) {
			o.from, o.against = endpoint("10.0.0.2", 0, ""), &policy.Egress{Policy: policy.NoNetwork{}, Engine: policy.Core}
		}},
		{"a policy with exceptions", "-f x -policy public-internet -except 203.0.113.0/24,2001:db8::/32", func(o *explainOptions) {
			o.against.Policy = policy.PublicInternet{ExceptCIDRs: []string{"203.0.113.0/24", "2001:db8::/32"}}
		}},
		{"hosts", "-f x -engine cilium -policy static -hosts a.example,.b.example", func(o *explainOptions) {
			o.engine, o.against = policy.Cilium, &policy.Egress{Policy: policy.Static{AllowedHosts: []string{"a.example", ".b.example"}}, Engine: policy.Cilium}
		}},
		{"several files and a pod of them", "-f x -f y -pod p -namespace lab -template t -agent-port 9 -json", func(o *explainOptions) {
			o.files, o.pod, o.namespace, o.template, o.agentPort, o.json = []string{"x", "y"}, "p", "lab", "t", 9, true
		}},
		{"labels, of which one is empty", "-f x -labels a/b=c,d=", func(o *explainOptions) { o.labels = map[string]string{"a/b": "c", "d": ""} }},
		{"no labels", "-f x -labels=", func(o *explainOptions) { o.labels = map[string]string{} }},
		{"a cluster", "-server https://a -token-file t -pod p", func(o *explainOptions) {
			o.files, o.pod, o.target = nil, "p", target{kind: targetServer, server: "https://a", tokenFile: "t"}
		}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			want := plain
			want.against = &policy.Egress{Policy: plain.against.Policy, Engine: plain.against.Engine}
			c.want(&want)
			got, err := parseExplain(strings.Fields(c.args))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("parseExplain(%q)\n got %+v, %v\nwant %+v", c.args, got, err, want)
			}
		})
	}
}

func TestExplainIsInTheHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"explain", "-h"}, {"help", "explain"}} {
		r := smoke(t, args...)
		r.expect(t, exitOK, "-f FILE", "-labels", "exit 0", "-json")
	}
	smoke(t, "help").expect(t, exitOK, "smoke explain")
	smoke(t, "explain").expect(t, exitUsage, "smoke explain -h lists what there is")
}
