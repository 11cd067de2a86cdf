package main

import (
	"flag"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

const explainUsage = `smoke explain [flags]: is a pod closed, and if not, which policy, rule and peer opens it; exit 0 if it is closed as asked,
1 if it is open or nobody can say, 2 for wrong flags and for files that cannot be read

policies from files
  -f FILE|-        JSON as "kubectl get -o json" prints it: an object, a list, an array, several of them one after the
                   other, or a recorded answer; repeat it for more files; - is standard input
or from a cluster
  -server URL | -kubeconfig-json FILE|- | -kubectl | -in-cluster
                   with -ca, -token-file and -token-cmd as for smoke run

the pod
  -pod NAME        by its name, in the cluster or in the files; without it the one Pod in the files
  -labels K=V,…    its labels, instead of those that it has
  -namespace NAME  default: the pod's, else that of all policies; in a cluster as for smoke run

what is asked; without -to and -from it is whether more is let out than by -policy, and whether the agent's port is closed
  -to ADDR:PORT[/PROTOCOL]  may the pod connect there; IPv6 in brackets; TCP, UDP or SCTP, default TCP
  -to-name HOST    the name that the address of -to was looked up by, for policies that name hosts
  -from ADDR       may this address connect to the agent's port
  -outside         the address of -to or -from is certainly not that of a pod
  -policy KIND     deny-all (default), no-network, allow-all, public-internet or static
  -except CIDR,…   more exceptions of public-internet
  -hosts HOST,…    the hosts of static
  -template NAME   SandboxTemplate that the policy is for, default as in the pod's label
  -agent-port PORT default 1024
  -engine ENGINE   core (default) or cilium: what the cluster's network plugin acts on

  -json            one JSON document on standard output
`

// explainOptions is what the flags of smoke explain ask for.
type explainOptions struct {
	target    target // used when there are no files
	files     []string
	namespace string
	pod       string
	labels    map[string]string // nil: the pod's own

	to, from        *policy.Endpoint
	against         *policy.Egress // nil: to is asked
	egress, ingress bool           // what the exit code is about
	template        string
	agentPort       int
	engine          policy.Engine
	json            bool
}

// explainFlags are the flags as they are written.
type explainFlags struct {
	target                 target
	files                  []string
	namespace, pod, labels string
	to, toName, from       string
	outside                bool
	policy, except, hosts  string
	template, engine       string
	agentPort              int
	json                   bool
	given                  map[string]bool
}

func parseExplain(args []string) (explainOptions, error) {
	var f explainFlags
	fs := flag.NewFlagSet("smoke explain", flag.ContinueOnError)
	fs.Func("f", "", func(path string) error {
		f.files = append(f.files, path)
		return nil
	})
	f.target.flags(fs)
	fs.StringVar(&f.namespace, "namespace", "", "")
	fs.StringVar(&f.pod, "pod", "", "")
	fs.StringVar(&f.labels, "labels", "", "")
	fs.StringVar(&f.to, "to", "", "")
	fs.StringVar(&f.toName, "to-name", "", "")
	fs.StringVar(&f.from, "from", "", "")
	fs.BoolVar(&f.outside, "outside", false, "")
	fs.StringVar(&f.policy, "policy", string(policy.KindDenyAll), "")
	fs.StringVar(&f.except, "except", "", "")
	fs.StringVar(&f.hosts, "hosts", "", "")
	fs.StringVar(&f.template, "template", "", "")
	fs.IntVar(&f.agentPort, "agent-port", policy.DefaultAgentPort, "")
	fs.StringVar(&f.engine, "engine", string(policy.Core), "")
	fs.BoolVar(&f.json, "json", false, "")
	if err := parse(fs, args); err != nil {
		return explainOptions{}, err
	}
	if fs.NArg() > 0 {
		return explainOptions{}, usagef("unexpected argument %q: files are named with -f", fs.Arg(0))
	}
	f.given = map[string]bool{}
	fs.Visit(func(g *flag.Flag) { f.given[g.Name] = true })
	return f.options()
}

// options checks the flags and reads their values.
func (f *explainFlags) options() (explainOptions, error) {
	o := explainOptions{
		files: f.files, namespace: f.namespace, pod: f.pod, template: f.template,
		agentPort: f.agentPort, engine: policy.Engine(f.engine), json: f.json,
	}
	for _, check := range []func(*explainOptions) error{f.source, f.names, f.question, f.boundary} {
		if err := check(&o); err != nil {
			return explainOptions{}, err
		}
	}
	return o, nil
}

// source finds out where the policies come from.
func (f *explainFlags) source(o *explainOptions) error {
	var clusters []string
	for _, name := range []string{"server", "kubeconfig-json", "kubectl", "in-cluster"} {
		if f.given[name] {
			clusters = append(clusters, name)
		}
	}
	if len(clusters) == 0 {
		for _, name := range []string{"ca", "token-file", "token-cmd"} {
			if f.given[name] {
				return usagef("-%s goes with a cluster: name one with -server, -kubeconfig-json, -kubectl or -in-cluster", name)
			}
		}
		if len(f.files) == 0 {
			return usagef("there are no policies: name files with -f, or a cluster with -server, -kubeconfig-json, -kubectl or -in-cluster")
		}
	}
	if len(clusters) > 0 && len(f.files) > 0 {
		return usagef("-f takes the policies from files and -%s from a cluster: leave one out", clusters[0])
	}
	stdin := 0
	for _, path := range f.files {
		if path == "" {
			return usagef("-f is empty: give it a file, or - for standard input")
		}
		if path == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return usagef("-f - is given twice, and there is one standard input")
	}
	if len(clusters) == 0 {
		return nil
	}
	var err error
	if o.target, err = f.target.choose(f.given, false); err != nil {
		return err
	}
	if o.target.kind == targetSim {
		return usagef("-%s=false leaves no cluster: name one, or files with -f", clusters[0])
	}
	if f.pod == "" && !f.given["labels"] {
		return usagef("which pod? Name one with -pod, or give the labels of one with -labels")
	}
	return nil
}

// names checks names and labels.
func (f *explainFlags) names(o *explainOptions) error {
	if f.given["namespace"] {
		if err := k8s.CheckNamespace(f.namespace); err != nil {
			return usagef("-namespace: %v", err)
		}
	}
	if f.given["pod"] {
		if err := k8s.CheckName(f.pod); err != nil {
			return usagef("-pod: %v", err)
		}
	}
	if f.given["template"] {
		if err := k8s.CheckName(f.template); err != nil {
			return usagef("-template: %v", err)
		}
	}
	if o.engine != policy.Core && o.engine != policy.Cilium {
		return usagef("-engine is %q, want %s or %s", f.engine, policy.Core, policy.Cilium)
	}
	if o.agentPort < 1 || o.agentPort > 65535 {
		return usagef("-agent-port is %d, want 1 to 65535", o.agentPort)
	}
	if !f.given["labels"] {
		return nil
	}
	o.labels = map[string]string{}
	for _, pair := range splitList(f.labels) {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return usagef("-labels: %q is not KEY=VALUE", pair)
		}
		if err := k8s.CheckLabel(key, value); err != nil {
			return usagef("-labels: %v", err)
		}
		if _, twice := o.labels[key]; twice {
			return usagef("-labels: %s is there twice", key)
		}
		o.labels[key] = value
	}
	return nil
}

// question reads who is at the other side.
func (f *explainFlags) question(o *explainOptions) error {
	var err error
	if f.given["to"] {
		if o.to, err = parseDestination(f.to); err != nil {
			return err
		}
		o.to.Name, o.to.Outside = f.toName, f.outside
	}
	if f.given["from"] {
		addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(f.from, "["), "]"))
		if err != nil || addr.Zone() != "" {
			return usagef("-from is %q, want an address such as 10.0.0.7 or 2001:db8::7", f.from)
		}
		o.from = &policy.Endpoint{Addr: addr, Outside: f.outside}
	}
	if o.to == nil && f.given["to-name"] {
		return usagef("-to-name goes with -to: a name is judged with the address it has")
	}
	if o.to == nil && o.from == nil && f.outside {
		return usagef("-outside is about the address of -to or -from, and neither is there")
	}
	o.egress = o.to != nil || o.from == nil || f.given["policy"]
	o.ingress = o.from != nil || o.to == nil
	return nil
}

// parseDestination reads ADDR:PORT[/PROTOCOL].
func parseDestination(text string) (*policy.Endpoint, error) {
	address, protocol, given := strings.Cut(text, "/")
	if !given {
		protocol = "TCP"
	}
	host, port, err := net.SplitHostPort(address)
	addr, addrErr := netip.ParseAddr(host)
	n, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || addrErr != nil || addr.Zone() != "":
		return nil, usagef("-to is %q, want ADDR:PORT/PROTOCOL such as 10.0.0.7:443/TCP or [2001:db8::7]:53/UDP; a name is given with -to-name", text)
	case portErr != nil || n == 0:
		return nil, usagef("-to has port %q, want 1 to 65535", port)
	}
	protocol = strings.ToUpper(protocol)
	if !slices.Contains([]string{"TCP", "UDP", "SCTP"}, protocol) {
		return nil, usagef("-to has protocol %q, want TCP, UDP or SCTP", protocol)
	}
	return &policy.Endpoint{Addr: addr, Port: int(n), Protocol: protocol}, nil
}

// boundary reads what the pod's egress is held against.
func (f *explainFlags) boundary(o *explainOptions) error {
	if o.to != nil {
		for _, name := range []string{"policy", "except", "hosts"} {
			if f.given[name] {
				return usagef("-%s asks whether anything is let out beyond a policy, -to asks about one destination: leave one out", name)
			}
		}
		return nil
	}
	kinds := map[policy.Kind]policy.Policy{
		policy.KindDenyAll:        policy.DenyAll{},
		policy.KindAllowAll:       policy.AllowAll{},
		policy.KindNoNetwork:      policy.NoNetwork{},
		policy.KindPublicInternet: policy.PublicInternet{ExceptCIDRs: splitList(f.except)},
		policy.KindStatic:         policy.Static{AllowedHosts: splitList(f.hosts)},
	}
	kind := policy.Kind(f.policy)
	chosen, known := kinds[kind]
	switch {
	case kind == policy.KindResolver:
		return usagef("-policy resolver asks a program for its hosts: use -policy static with -hosts")
	case !known:
		return usagef("-policy is %q, want one of %s", f.policy, strings.Join(kindNames(kinds), ", "))
	case f.given["except"] && kind != policy.KindPublicInternet:
		return usagef("-except goes with -policy %s", policy.KindPublicInternet)
	case f.given["hosts"] && kind != policy.KindStatic:
		return usagef("-hosts goes with -policy %s", policy.KindStatic)
	case kind == policy.KindStatic && o.engine != policy.Cilium:
		return usagef("-policy static needs -engine cilium: a NetworkPolicy cannot name hosts")
	}
	o.against = &policy.Egress{Policy: chosen, Engine: o.engine}
	return nil
}

func kindNames(kinds map[policy.Kind]policy.Policy) []string {
	var names []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		names = append(names, string(kind))
	}
	return names
}

// splitList reads a list with commas; blanks around its items are no part of
// them.
func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
