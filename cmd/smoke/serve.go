package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
)

const simUsage = `smoke sim [flags]: serve a simulated cluster to other programs until SIGINT or SIGTERM

  -listen HOST:PORT  where its API server listens, TLS only; default 127.0.0.1:0, which picks a free port
  -namespace NAME    the one namespace it has; default "default"

It prints, one a line, server, ca, token-file, namespace, template and pool, in the form "name: value". The files are
removed when it ends. Its guests are real processes of this user, at port 1024 of addresses in 127.0.0.0/8.
`

// simCommand serves until ctx ends, which is how it is meant to end.
func simCommand(ctx context.Context, s streams, args []string) (int, error) {
	fs := flag.NewFlagSet("smoke sim", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:0", "")
	namespace := fs.String("namespace", "default", "")
	if err := parse(fs, args); err != nil {
		return exitFailed, err
	}
	if fs.NArg() > 0 {
		return exitFailed, usagef("unexpected argument %q", fs.Arg(0))
	}
	if _, _, err := net.SplitHostPort(*listen); err != nil {
		return exitFailed, usagef("-listen %q is not HOST:PORT", *listen)
	}
	if err := k8s.CheckNamespace(*namespace); err != nil {
		return exitFailed, usagef("-namespace: %v", err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return exitFailed, fmt.Errorf("-listen: %w", err)
	}
	host, hosts := namesOf(*listen, l.Addr())
	simulation, err := simulate(ctx, sim.Config{Namespace: *namespace}, l, hosts)
	if err != nil {
		return exitFailed, err
	}
	defer simulation.Close()
	folder, err := os.MkdirTemp("", "smoke-sim-")
	if err != nil {
		return exitFailed, err
	}
	defer os.RemoveAll(folder)
	ca, token := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "token")
	if err := os.WriteFile(ca, simulation.caPEM, 0o644); err != nil {
		return exitFailed, err
	}
	if err := os.WriteFile(token, []byte(simulation.cluster.Token()+"\n"), 0o600); err != nil {
		return exitFailed, err
	}
	server := "https://" + host
	fmt.Fprintf(s.stdout, "server: %s\nca: %s\ntoken-file: %s\nnamespace: %s\ntemplate: %s\npool: %s\n",
		server, ca, token, simulation.cluster.Namespace(), defaultTemplate, defaultPool)
	fmt.Fprintf(s.stderr, "smoke: serving until SIGINT or SIGTERM; try: smoke -server %s -ca %s -token-file %s -namespace %s\n",
		server, ca, token, simulation.cluster.Namespace())
	if err := simulation.wait(ctx); err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}

// namesOf returns the host and port to reach a listener by, and what its
// certificate must be for. A listener on all addresses is reached by loopback.
func namesOf(asked string, bound net.Addr) (address string, hosts []string) {
	host, _, _ := net.SplitHostPort(asked)
	_, port, _ := net.SplitHostPort(bound.String())
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.IsUnspecified():
		hosts = []string{"127.0.0.1", "::1", "localhost"}
		if name, err := os.Hostname(); err == nil {
			hosts = append(hosts, name)
		}
		if err == nil && ip.Is6() {
			return net.JoinHostPort("::1", port), hosts
		}
		return net.JoinHostPort("127.0.0.1", port), hosts
	}
	return net.JoinHostPort(host, port), []string{host}
}
