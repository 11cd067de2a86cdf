package main

import (
	"flag"
	"strings"
)

// A target is the cluster that the flags name.
type target struct {
	kind targetKind

	server       string
	caFile       string
	tokenFile    string
	tokenCommand string
	kubeconfig   string // file, or - for standard input
	kubectl      bool
	inCluster    bool
}

// A targetKind is named like its flag.
type targetKind string

const (
	targetSim        targetKind = "sim"
	targetServer     targetKind = "server"
	targetKubeconfig targetKind = "kubeconfig-json"
	targetKubectl    targetKind = "kubectl"
	targetInCluster  targetKind = "in-cluster"
)

// flags adds the flags that name a target, all but -sim.
func (t *target) flags(fs *flag.FlagSet) {
	fs.StringVar(&t.server, "server", "", "")
	fs.StringVar(&t.caFile, "ca", "", "")
	fs.StringVar(&t.tokenFile, "token-file", "", "")
	fs.StringVar(&t.tokenCommand, "token-cmd", "", "")
	fs.StringVar(&t.kubeconfig, "kubeconfig-json", "", "")
	fs.BoolVar(&t.kubectl, "kubectl", false, "")
	fs.BoolVar(&t.inCluster, "in-cluster", false, "")
}

// choose finds the one target that is meant. given holds the names of the flags
// that were there; sim is the value of -sim.
func (t target) choose(given map[string]bool, sim bool) (target, error) {
	var kinds []targetKind
	for _, k := range []struct {
		kind targetKind
		on   bool
	}{
		{targetSim, sim},
		{targetServer, given["server"]},
		{targetKubeconfig, given["kubeconfig-json"]},
		{targetKubectl, t.kubectl},
		{targetInCluster, t.inCluster},
	} {
		if k.on {
			kinds = append(kinds, k.kind)
		}
	}
	switch {
	case len(kinds) > 1:
		return t, usagef("-%s and -%s name two clusters: leave one out", kinds[0], kinds[1])
	case len(kinds) == 1:
		t.kind = kinds[0]
	case given["sim"]:
		return t, usagef("-sim=false leaves no cluster: name one with -server, -kubeconfig-json, -kubectl or -in-cluster")
	default:
		t.kind = targetSim
	}
	if err := t.check(given); err != nil {
		return t, err
	}
	return t, nil
}

// check refuses flags that do not go with the target, and empty ones.
func (t target) check(given map[string]bool) error {
	for _, f := range []struct{ name, value string }{
		{"server", t.server}, {"ca", t.caFile}, {"token-file", t.tokenFile},
		{"token-cmd", t.tokenCommand}, {"kubeconfig-json", t.kubeconfig},
	} {
		if given[f.name] && strings.TrimSpace(f.value) == "" {
			return usagef("-%s is empty: give it a value or leave it out", f.name)
		}
	}
	if given["ca"] && t.kind != targetServer {
		return usagef("-ca goes with -server; with %s leave it out", t.kind.flag())
	}
	for _, name := range []string{"token-file", "token-cmd"} {
		if given[name] && (t.kind == targetSim || t.kind == targetInCluster) {
			return usagef("-%s goes with -server, -kubeconfig-json or -kubectl; with %s leave it out", name, t.kind.flag())
		}
	}
	if given["token-file"] && given["token-cmd"] {
		return usagef("-token-file and -token-cmd are two sources of one token: leave one out")
	}
	return nil
}

func (k targetKind) flag() string {
	if k == targetSim {
		return "the simulated cluster (-sim)"
	}
	return "-" + string(k)
}
