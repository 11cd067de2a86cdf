package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

const explainBudget = time.Minute // for all that is read from a cluster

// explainCommand answers whether a pod is closed. A cluster that cannot be read
// leaves the question open, which is an answer too.
func explainCommand(ctx context.Context, s streams, args []string) (int, error) {
	o, err := parseExplain(args)
	if err != nil {
		return exitUsage, err
	}
	e, err := o.gather(ctx, s)
	if _, misused := errors.AsType[*usageError](err); misused || ctx.Err() != nil {
		return exitFailed, err
	}
	if err != nil {
		if o.json {
			err = errors.Join(err, writeIndented(s.stdout, o.unanswered(err)))
		}
		return exitFailed, err
	}
	x, err := o.explain(e)
	if err != nil {
		return exitUsage, err
	}
	if o.json {
		err = writeIndented(s.stdout, x)
	} else {
		_, err = io.WriteString(s.stdout, x.text())
	}
	if err != nil || !x.OK {
		return exitFailed, err
	}
	return exitOK, nil
}

// gather reads the pod and the policies.
func (o *explainOptions) gather(ctx context.Context, s streams) (evidence, error) {
	if len(o.files) > 0 {
		objects, err := readManifests(ctx, o.files, s.stdin)
		if err != nil {
			return evidence{}, err
		}
		return o.sortEvidence(objects)
	}
	if err := o.target.refuse(ctx, s, o.namespace); err != nil {
		return evidence{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, explainBudget, fmt.Errorf("the cluster was not read within %v", explainBudget))
	defer cancel()
	return o.readCluster(bounded, s)
}

// explain asks package policy, and takes back what its answer cannot say.
func (o *explainOptions) explain(e evidence) (explanation, error) {
	found, err := policy.Explain(e.policies, o.question(e))
	if err != nil {
		return explanation{}, usagef("%v", err)
	}
	x := o.explanation(e)
	x.Egress, x.Ingress = o.weigh(e, found.Egress), o.weigh(e, found.Ingress)
	x.Notes = append(x.Notes, found.Notes...)
	if o.engine == policy.Core && strings.Contains(strings.Join(found.Notes, " "), "(engine core)") {
		x.Notes = append(x.Notes, "Cilium's policies are judged with -engine cilium only: use it if the cluster's network plugin is Cilium")
	}
	x.Notes = append(x.Notes, "policies of other APIs, such as Calico's, Antrea's and OVN-Kubernetes', are never judged, and what is stored is not proved to be in force")
	x.OK = (!o.egress || x.Egress.Verdict == policy.Closed) && (!o.ingress || x.Ingress.Verdict == policy.Closed)
	return x, nil
}

// weigh lowers an answer to unknown where the policies are not the whole story.
func (o *explainOptions) weigh(e evidence, a policy.Answer) explainedSide {
	side := explainedSide{Verdict: a.Verdict, Text: oneLine(a.Text), Examined: []explainedPolicy{}}
	for _, x := range a.Examined {
		side.Examined = append(side.Examined, explainedPolicy(x))
	}
	var required, others []string
	for _, u := range e.unread {
		if u.Required {
			required = append(required, fmt.Sprintf("%s (%s)", u.Resource, u.Rule))
		} else if u.Why == policy.UnreadForbidden && (o.engine == policy.Cilium || !strings.HasPrefix(u.Resource, k8s.CiliumNetworkPolicies.Plural)) {
			others = append(others, u.Resource)
		}
	}
	switch {
	case len(required) > 0:
		side.lower("the answer depends on " + strings.Join(required, " and ") + "; by what could be read it is ")
	case a.Verdict == policy.Closed && e.onNode:
		side.lower("the pod uses its node's network, where network policies usually have no effect; by the policies it is ")
	case a.Verdict == policy.Closed && len(others) > 0:
		side.Text += "; not read: " + strings.Join(others, ", ")
	}
	return side
}

func (s *explainedSide) lower(why string) {
	s.Verdict, s.Text = policy.Unknown, "unknown: "+why+s.Text
}

// unanswered is the document when nothing could be read.
func (o *explainOptions) unanswered(err error) explanation {
	x := o.explanation(evidence{pod: policy.Pod{Namespace: o.namespace, Labels: o.labels}, podName: o.pod})
	side := explainedSide{Verdict: policy.Unknown, Text: "unknown: " + oneLine(err.Error()), Examined: []explainedPolicy{}}
	x.Egress, x.Ingress, x.Error = side, side, oneLine(err.Error())
	return x
}
