package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

type unionInput struct {
	translationJSON
	Namespace    string
	PodLabels    map[string]string
	Core         []json.RawMessage
	Cilium       []json.RawMessage
	AgentPort    int
	Ingress      json.RawMessage
	EgressEngine string
}

// objects decodes a list; the text $NAMED stands for the translation itself.
func objects(t testing.TB, list []json.RawMessage, named k8s.Object) []k8s.Object {
	t.Helper()
	var out []k8s.Object
	for _, raw := range list {
		if string(raw) == `"$NAMED"` {
			var stored k8s.Object
			decode(t, []byte(text(named)), &stored)
			out = append(out, stored)
			continue
		}
		var o k8s.Object
		decode(t, raw, &o)
		out = append(out, o)
	}
	return out
}

type decision struct {
	Result   string
	Names    string
	Examined []struct {
		Policy  string
		Verdict policy.Verdict
	}
}

func (d decision) check(t *testing.T, about string, got policy.Outcome) {
	t.Helper()
	result, names := string(got.Refusal), ""
	if result == "" {
		result = "ok"
	}
	if got.Culprit != nil {
		names = got.Culprit.Kind + "/" + got.Culprit.Name
	}
	if result != d.Result || names != d.Names {
		t.Fatalf("%s: got %s %s, want %s %s\nexamined %s", about, result, names, d.Result, d.Names, text(got.Examined))
	}
	if d.Examined == nil {
		return
	}
	if len(got.Examined) != len(d.Examined) {
		t.Fatalf("%s: examined %s, want %d", about, text(got.Examined), len(d.Examined))
	}
	for i, e := range got.Examined {
		if e.Kind+"/"+e.Name != d.Examined[i].Policy || e.Verdict != d.Examined[i].Verdict {
			t.Errorf("%s: examined[%d] is %s, want %s %s", about, i, text(e), d.Examined[i].Policy, d.Examined[i].Verdict)
		}
		if (e.Verdict == policy.WidensEgress || e.Verdict == policy.NotEvaluable || e.Verdict == policy.OpensAgentPort) && e.Detail == "" {
			t.Errorf("%s: examined[%d] %s says no reason", about, i, text(e))
		}
	}
}

func judgeUnion(t testing.TB, in unionInput) (policy.Outcome, error) {
	t.Helper()
	manifest, err := in.translate(t)
	if err != nil {
		return policy.Outcome{}, err
	}
	lists := policy.Policies{Core: objects(t, in.Core, manifest), Cilium: objects(t, in.Cilium, manifest)}
	return policy.JudgeUnion(manifest, lists, policy.Engine(in.Engine), policy.Pod{Namespace: "lab-7", Labels: in.PodLabels})
}

// betterUnions are the judgements that differ from the recorded ones.
var betterUnions = map[string]override{
	"un-56": {`{"result":"ok","examined":[{"policy":"NetworkPolicy/builder-egress","verdict":"within"},{"policy":"CiliumNetworkPolicy/dns","verdict":"within"}]}`,
		"protocol ANY on port 53 beside UDP and TCP 53 is how lookups are written in Cilium; SCTP that is spelled out is still refused"},
	"un-68": {`{"result":"ok","examined":[{"policy":"CiliumNetworkPolicy/builder-egress","verdict":"within"},{"policy":"CiliumNetworkPolicy/copy","verdict":"within"}]}`,
		"a second policy with the configured pattern opens nothing more"},
}

func TestUnion(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range vectors[vector[unionInput]](t, "policy-union.json", 79) {
		t.Run(c.ID, func(t *testing.T) {
			var want decision
			decode(t, c.Expect, &want)
			if b, ok := betterUnions[c.ID]; ok {
				seen[c.ID] = true
				want = decision{}
				decode(t, []byte(b.want), &want)
			}
			got, err := judgeUnion(t, c.Input)
			if err != nil {
				t.Fatal(err)
			}
			want.check(t, c.About, got)
		})
	}
	used(t, betterUnions, seen)
}

func judgeIngress(t testing.TB, in unionInput) (policy.Outcome, bool) {
	t.Helper()
	var config policy.Ingress
	var object struct{ Engine string }
	switch {
	case string(in.Ingress) == `"unverified"`:
		return policy.Outcome{}, false
	case in.Ingress != nil:
		decode(t, in.Ingress, &object)
		config.Engine = policy.Engine(object.Engine)
	}
	engine := config.Engine
	if engine == "" {
		engine = policy.Engine(in.EgressEngine)
	}
	lists := policy.Policies{Core: objects(t, in.Core, nil), Cilium: objects(t, in.Cilium, nil)}
	return policy.JudgeIngress(config, "", lists, engine, policy.Pod{Namespace: in.Namespace, Labels: in.PodLabels}, in.AgentPort), true
}

// betterIngress are the judgements that differ from the recorded ones.
var betterIngress = map[string]override{
	"in-19": {`{"result":"port-open","names":"NetworkPolicy/same-ns","examined":[{"policy":"NetworkPolicy/same-ns","verdict":"opens-agent-port"}]}`,
		"podSelector {} admits every other sandbox of the namespace"},
	"in-47": {`{"result":"port-open","names":"CiliumNetworkPolicy/many","examined":[{"policy":"NetworkPolicy/base","verdict":"covers"},{"policy":"CiliumNetworkPolicy/many","verdict":"not-ingress-scoped"},{"policy":"CiliumNetworkPolicy/many","verdict":"opens-agent-port"}]}`,
		"an empty list of rules in a Cilium policy does nothing, so that it does not close the port either"},
}

func TestIngress(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range vectors[vector[unionInput]](t, "policy-ingress.json", 50) {
		t.Run(c.ID, func(t *testing.T) {
			var want decision
			decode(t, c.Expect, &want)
			if b, ok := betterIngress[c.ID]; ok {
				seen[c.ID] = true
				want = decision{}
				decode(t, []byte(b.want), &want)
			}
			got, verified := judgeIngress(t, c.Input)
			if want.Result == "skipped" {
				if verified {
					t.Fatal("the port was verified")
				}
				return
			}
			want.check(t, c.About, got)
		})
	}
	used(t, betterIngress, seen)
}

func TestWeakPoints(t *testing.T) {
	for _, c := range vectors[vector[unionInput]](t, "policy-weakpoints.json", 30) {
		t.Run(c.ID, func(t *testing.T) {
			var want decision
			decode(t, c.Want, &want)
			if c.Check == "ingress" {
				got, _ := judgeIngress(t, c.Input)
				want.check(t, c.About, got)
				return
			}
			got, err := judgeUnion(t, c.Input)
			if want.Result == "refused-at-construction" {
				if class, field, _ := refusalClass(err); class != "KubernetesEgressPolicyConfigError" || field != "policy.allowedHosts" {
					t.Fatalf("%s: got %v, want a refusal of policy.allowedHosts", c.About, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want.check(t, c.About, got)
		})
	}
}
