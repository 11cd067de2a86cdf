package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/internal/sim"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
)

// A simulation is a simulated cluster whose API server is being served.
type simulation struct {
	cluster *sim.Cluster
	caPEM   []byte
	server  *http.Server
	ended   chan error // of the serving goroutine
}

const (
	simulationReady = 30 * time.Second // until the pool is full
	headerTimeout   = 10 * time.Second
)

// simulate starts a cluster, serves it on l and returns when its pools are
// full. The certificate is for hosts.
func simulate(ctx context.Context, config sim.Config, l net.Listener, hosts []string) (*simulation, error) {
	caPEM, certificate, err := newServerCertificate(hosts)
	if err != nil {
		l.Close()
		return nil, err
	}
	c, err := sim.New(config)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("the simulated cluster does not start: %w", err)
	}
	s := &simulation{
		cluster: c,
		caPEM:   caPEM,
		server: &http.Server{
			Handler:           c,
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			ReadHeaderTimeout: headerTimeout,
			ErrorLog:          log.New(io.Discard, "", 0), // what a client's broken handshake looks like from here
		},
		ended: make(chan error, 1),
	}
	go func() { s.ended <- s.server.ServeTLS(l, "", "") }()
	if err := c.Apply("networkpolicies", baseline()); err != nil {
		s.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, simulationReady, fmt.Errorf("the simulated cluster's pools are not full after %v", simulationReady))
	defer cancel()
	if err := c.WaitReady(ctx); err != nil {
		s.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return s, nil
}

// baseline is the policy that an operator applies for all sandboxes, those
// without a pool among them; deploy/ has it as a file.
func baseline() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "sandbox-ingress"},
		"spec": map[string]any{
			"podSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": policy.TemplateLabelKey, "operator": "Exists"}}},
			"policyTypes": []any{"Ingress"},
			"ingress": []any{map[string]any{
				"from":  []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"namzu.ai/component": "host"}}}},
				"ports": []any{map[string]any{"protocol": "TCP", "port": 1024}},
			}},
		},
	}
}

// Close ends the server, then the cluster, and waits for both.
func (s *simulation) Close() {
	s.server.Close()
	<-s.ended
	s.cluster.Close()
}

// wait returns when ctx ends, or an error when the server ends first.
func (s *simulation) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.ended:
		s.ended <- err // Close waits for it too
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("the server ended: %w", err)
	}
}

// Where the API server of the simulated cluster is, on a network that exists in
// this process only.
const (
	simAddress = "10.96.0.1"
	simURL     = "https://10.96.0.1"
)

// openSimulation starts a simulated cluster on a network in memory.
func openSimulation(ctx context.Context, namespace string) (cluster, error) {
	network := &memnet.Network{}
	l, err := network.Listen("tcp", net.JoinHostPort(simAddress, "443"))
	if err != nil {
		return cluster{}, err
	}
	s, err := simulate(ctx, sim.Config{Namespace: namespace, Network: network}, l, []string{simAddress})
	if err != nil {
		return cluster{}, err
	}
	token := s.cluster.Token()
	return cluster{
		name: "sim",
		config: k8s.Config{
			Server:      simURL,
			CA:          s.caPEM,
			Token:       func(context.Context) (string, error) { return token, nil },
			Namespace:   s.cluster.Namespace(),
			DialContext: network.DialContext,
		},
		dial:  network.DialContext,
		close: s.Close,
	}, nil
}
