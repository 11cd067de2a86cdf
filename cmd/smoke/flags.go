package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
)

const runUsage = `smoke [run] [flags]: get a sandbox, use it, give it back; exit 0 if all went well, 1 if not, 2 for wrong flags

where (one of them)
  -sim                     a simulated cluster inside this process; the default
  -server URL              an API server
      -ca FILE             its CA certificates (PEM); without it the system's
      -token-file FILE     file with the bearer token, read again whenever it is needed
      -token-cmd CMD       shell command that prints the bearer token
  -kubeconfig-json FILE|-  what "kubectl config view --raw --minify -o json" prints; - reads standard input
  -kubectl                 runs that command; -token-cmd and -token-file replace the user's credentials
  -in-cluster              this program runs in a pod
  -namespace NAME          default: that of the kubeconfig or pod, "default" with -server

what
  -pool NAME               SandboxWarmPool to claim from, default "pool"
  -direct                  no pool: create a Sandbox from the template
  -template NAME           SandboxTemplate, default "task"; for a pool, default its own
  -n N, -parallel P        N sandboxes, P at a time; default 1, 1
  -agent-address MODE      dial the guest at its pod-ip (default) or at its service
  -agent-port PORT         default 1024
  -ready-timeout DURATION  how long a sandbox may take, default 1m, or what fits a shorter -ttl
  -file-bytes N            size of the larger test file, default 7341266, which goes in parts
  -ttl DURATION            how long a sandbox outlives this program if it is killed, default 5m
  -watch                   wait for a sandbox with a watch, beside slow polling, instead of polling alone
  -ingress MODE            verified (default): only with policies that close the agent's port; or unverified

  -json                    one JSON document on standard output, progress on standard error
`

// Defaults of the flags that have one.
const (
	defaultTTL      = 5 * time.Minute
	defaultTemplate = "task"
	defaultPool     = "pool"
	defaultFile     = 7<<20 + 1234 // does not fit into one request of the guest protocol
	leastFile       = 1 << 10
	mostFile        = 256 << 20
	maxSandboxes    = 1000
)

// options is what the flags of a run ask for.
type options struct {
	target       target
	namespace    string // "": the target's own
	template     string
	anyTemplate  bool   // the pool's own template is fine
	pool         string // "": direct
	n, parallel  int
	address      acquire.AddressMode
	port         int
	fileBytes    int
	readyTimeout time.Duration
	ttl          time.Duration
	watch        bool
	unverified   bool // ingress is not judged
	json         bool
}

// parseRun reads the flags of a run and refuses all that needs no file and no
// server to be refused.
func parseRun(args []string) (options, error) {
	var (
		o       options
		t       target
		sim     bool
		direct  bool
		address string
		ingress string
	)
	fs := flag.NewFlagSet("smoke run", flag.ContinueOnError)
	fs.BoolVar(&sim, "sim", false, "")
	t.flags(fs)
	fs.StringVar(&o.namespace, "namespace", "", "")
	fs.StringVar(&o.template, "template", defaultTemplate, "")
	fs.StringVar(&o.pool, "pool", defaultPool, "")
	fs.BoolVar(&direct, "direct", false, "")
	fs.IntVar(&o.n, "n", 1, "")
	fs.IntVar(&o.parallel, "parallel", 1, "")
	fs.StringVar(&address, "agent-address", string(acquire.ByPodIP), "")
	fs.IntVar(&o.port, "agent-port", acquire.DefaultAgentPort, "")
	fs.IntVar(&o.fileBytes, "file-bytes", defaultFile, "")
	fs.DurationVar(&o.readyTimeout, "ready-timeout", 0, "")
	fs.DurationVar(&o.ttl, "ttl", defaultTTL, "")
	fs.StringVar(&ingress, "ingress", "verified", "")
	fs.BoolVar(&o.watch, "watch", false, "")
	fs.BoolVar(&o.json, "json", false, "")
	if err := parse(fs, args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, usagef("unexpected argument %q: a run takes flags only", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })

	var err error
	if o.target, err = t.choose(given, sim); err != nil {
		return options{}, err
	}
	if direct {
		if given["pool"] {
			return options{}, usagef("-direct creates a Sandbox without a pool; leave out -pool or -direct")
		}
		o.pool = ""
	}
	o.anyTemplate = !direct && !given["template"]
	o.address = acquire.AddressMode(address)
	if err := o.check(given, direct, ingress); err != nil {
		return options{}, err
	}
	o.readyTimeout, err = fitReadyTimeout(o.ttl, o.readyTimeout, given["ready-timeout"])
	return o, err
}

func (o *options) check(given map[string]bool, direct bool, ingress string) error {
	switch ingress {
	case "verified":
	case "unverified":
		o.unverified = true
	default:
		return usagef("-ingress is %q, want verified or unverified", ingress)
	}
	if o.namespace != "" || given["namespace"] {
		if err := k8s.CheckNamespace(o.namespace); err != nil {
			return usagef("-namespace: %v", err)
		}
	}
	if err := k8s.CheckName(o.template); err != nil {
		return usagef("-template: %v", err)
	}
	if !direct {
		if err := k8s.CheckName(o.pool); err != nil {
			return usagef("-pool: %v; use -direct to do without a pool", err)
		}
	}
	if o.address != acquire.ByPodIP && o.address != acquire.ByService {
		return usagef("-agent-address is %q, want %s or %s", o.address, acquire.ByPodIP, acquire.ByService)
	}
	for _, limit := range []struct {
		name               string
		value, least, most int
	}{
		{"n", o.n, 1, maxSandboxes},
		{"parallel", o.parallel, 1, maxSandboxes},
		{"agent-port", o.port, 1, 65535},
		{"file-bytes", o.fileBytes, leastFile, mostFile},
	} {
		if limit.value < limit.least || limit.value > limit.most {
			return usagef("-%s is %d, want %d to %d", limit.name, limit.value, limit.least, limit.most)
		}
	}
	o.parallel = min(o.parallel, o.n)
	return nil
}

// String says what is asked for in one line.
func (o options) String() string {
	what := "direct from template " + o.template
	if o.pool != "" {
		what = "from pool " + o.pool
	}
	if o.n == 1 {
		return "one sandbox " + what
	}
	return fmt.Sprintf("%d sandboxes %s, %d at a time", o.n, what, o.parallel)
}
