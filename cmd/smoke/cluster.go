package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// A cluster is a target that was opened: how to reach its API server and its
// guests.
type cluster struct {
	name   string // for the reader: "sim" or the server's URL
	config k8s.Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error) // reaches guests; nil is the machine's own network
	close  func()
}

const (
	kubectlTimeout = 30 * time.Second
	maxKubeconfig  = 4 << 20
)

// open reads what the target names and starts what it needs. No request is sent
// to a live cluster yet.
func (t target) open(ctx context.Context, s streams, namespace string) (cluster, error) {
	if t.kind == targetSim {
		return openSimulation(ctx, namespace)
	}
	c := cluster{close: func() {}}
	var err error
	switch t.kind {
	case targetServer:
		c.config = k8s.Config{Server: t.server, CAFile: t.caFile, Namespace: "default"}
	case targetInCluster:
		c.config, err = k8s.InCluster()
	case targetKubectl:
		var data []byte
		if data, err = kubectlConfig(ctx, s.environ); err == nil {
			c.config, err = t.parseKubeconfig(data, ".")
		}
	case targetKubeconfig:
		var data []byte
		if data, err = t.readKubeconfig(heed(ctx, s.stdin)); err == nil {
			c.config, err = t.parseKubeconfig(data, filepath.Dir(t.kubeconfig))
		}
	}
	if err != nil {
		return cluster{}, err
	}
	if t.tokenFile != "" {
		c.config.Token = tokenFromFile(t.tokenFile)
	}
	if t.tokenCommand != "" {
		c.config.Token = tokenFromCommand(t.tokenCommand, s.environ)
	}
	if namespace != "" {
		c.config.Namespace = namespace
	}
	c.name = printableURL(c.config.Server)
	return c, nil
}

// printableURL is a server's URL without what may be secret in it.
func printableURL(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "(no URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// kubectlConfig asks kubectl for the current context. What kubectl prints holds
// credentials and is never shown.
func kubectlConfig(ctx context.Context, environ []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, kubectlTimeout, fmt.Errorf("-kubectl: no answer within %v", kubectlTimeout))
	defer cancel()
	data, err := runProgram(ctx, program{
		name:    "kubectl",
		args:    []string{"config", "view", "--raw", "--minify", "-o", "json"},
		environ: environ,
		most:    maxKubeconfig,
	})
	if err != nil {
		return nil, fmt.Errorf("-kubectl: kubectl config view --raw --minify -o json: %w", err)
	}
	return data, nil
}

func (t target) readKubeconfig(stdin io.Reader) ([]byte, error) {
	r := stdin
	if t.kubeconfig != "-" {
		f, err := os.Open(t.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("-kubeconfig-json: %w", err)
		}
		defer f.Close()
		r = f
	}
	data, err := readBounded(r, maxKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("-kubeconfig-json %s: %w", t.kubeconfig, err)
	}
	return data, nil
}

func (t target) parseKubeconfig(data []byte, dir string) (k8s.Config, error) {
	if t.tokenFile != "" || t.tokenCommand != "" {
		data = withoutCredentials(data)
	}
	config, err := k8s.ParseKubeconfig(data, dir)
	if err != nil {
		return k8s.Config{}, fmt.Errorf("-%s: %w (-token-cmd or -token-file replace what a user entry cannot give)", t.kind, err)
	}
	return config, nil
}

// withoutCredentials empties the users of a kubeconfig, whose place another
// source of the token takes. What is not JSON is returned as it is, to be
// refused by whoever reads it.
func withoutCredentials(data []byte) []byte {
	var config map[string]json.RawMessage
	var users []map[string]json.RawMessage
	if json.Unmarshal(data, &config) != nil || json.Unmarshal(config["users"], &users) != nil {
		return data
	}
	for _, u := range users {
		if u != nil {
			u["user"] = json.RawMessage("{}")
		}
	}
	emptied, err := json.Marshal(users)
	if err != nil {
		return data
	}
	config["users"] = emptied
	if out, err := json.Marshal(config); err == nil {
		return out
	}
	return data
}

// flagOf translates the refusal of a field of k8s.Config into the flag it came
// from; nil if err is another one.
func flagOf(err error, k targetKind) error {
	e, ok := errors.AsType[*k8s.ConfigError](err)
	if !ok || k != targetServer {
		return nil
	}
	switch e.Field {
	case "Server":
		return usagef("-server %s", e.Problem)
	case "Token":
		return usagef("-server needs a credential: give -token-file or -token-cmd")
	case "CAFile":
		return nil // a file that cannot be read is a failure, not a wrong flag
	}
	return usagef("%v", e)
}
