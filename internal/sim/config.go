package sim

import (
	"fmt"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
	"github.com/sandlot-go/sandlot/internal/memnet"
	"github.com/sandlot-go/sandlot/internal/uuid"
)

// A Config says what a cluster is like. Its zero value is a full cluster on the
// loopback interface.
type Config struct {
	// Namespace is where the templates, the pools and the account are; ""
	// means sandbox-sim.
	Namespace string

	// Token is the bearer token that is accepted; "" means a random one, see
	// [Cluster.Token].
	Token string

	// MoreTokens are accepted as well, as an older token is after a rotation.
	MoreTokens []string

	// Network is where the guests of pods listen, at port 1024 of the pod's
	// address, and where the names of Services resolve. nil: the loopback
	// interface, 127.67.x.y, and only [Cluster.DialPod] knows the names.
	Network *memnet.Network

	// Templates and Pools are the objects to begin with, in any Go types that
	// encode as JSON. nil Templates: a SandboxTemplate named task. nil Pools:
	// a SandboxWarmPool named pool of 3 on task.
	Templates, Pools []map[string]any

	// Unserved are plural names of resources whose definitions the cluster
	// lacks: a request for one is answered as on a cluster without the CRD.
	Unserved []string

	// Bind is the time from a claim's creation until its verdict, and from a
	// direct Sandbox's until its pod; 0 means 30 ms. Every other reaction of
	// the controller takes 10 ms.
	Bind time.Duration
	// PodReady is the time from a pod's creation until it is Ready; 0 means 15 ms.
	PodReady time.Duration
	// PodDelete is the least time from a pod's deletion until it is gone; 0
	// means 20 ms.
	PodDelete time.Duration
	// LabelDelay is the time from a bind until a claim's labels are on the pod;
	// 0 means 5 ms.
	LabelDelay time.Duration

	// Fault is asked once for each request, before it is handled; nil means no
	// faults. It may be called from several goroutines at once.
	Fault func(*Request) *Fault

	// Allow decides whether the account may do what it asks for, as RBAC does;
	// a subresource is written as in sandboxclaims/status. nil allows all.
	Allow func(verb, resource, name string) bool

	// Now is the server's clock: Date headers, stamps and expiries. nil means
	// time.Now. It must run as fast as that, and not call the cluster.
	Now func() time.Time

	// Guest has the last word on the configuration of a pod's guest.
	Guest func(pod map[string]any, c *guest.Config)

	// ServiceFQDN has claims carry status.sandbox.serviceFQDN, as later
	// versions of the controller do.
	ServiceFQDN bool

	// Root is the folder for the pods' files; "" means a temporary one that
	// Close removes.
	Root string
}

func (c Config) withDefaults() Config {
	if c.Namespace == "" {
		c.Namespace = "sandbox-sim"
	}
	if c.Token == "" {
		c.Token = "sim-" + uuid.New()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Bind, 30 * time.Millisecond}, {&c.PodReady, 15 * time.Millisecond},
		{&c.PodDelete, 20 * time.Millisecond}, {&c.LabelDelay, 5 * time.Millisecond},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Templates == nil {
		c.Templates = []map[string]any{Template("task")}
	}
	if c.Pools == nil {
		c.Pools = []map[string]any{Pool("pool", "task", 3)}
	}
	return c
}

// Template is a SandboxTemplate as a careful operator writes it: a Service, a
// closed network policy that lets the host in, and pods without privileges.
func Template(name string) map[string]any {
	return map[string]any{
		"metadata": object{"name": name},
		"spec": object{
			"service": true,
			"networkPolicy": object{
				"ingress": list{object{
					"from":  list{object{"podSelector": object{"matchLabels": object{"namzu.ai/component": "host"}}}},
					"ports": list{object{"protocol": "TCP", "port": 1024}},
				}},
				"egress": list{object{
					"to": list{object{
						"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": "kube-system"}},
						"podSelector":       object{"matchLabels": object{"k8s-app": "kube-dns"}},
					}},
					"ports": list{object{"protocol": "UDP", "port": 53}, object{"protocol": "TCP", "port": 53}},
				}},
			},
			"podTemplate": object{
				"metadata": object{"labels": object{"sandbox.namzu.ai/template": name}},
				"spec": object{
					"automountServiceAccountToken":  false,
					"terminationGracePeriodSeconds": 5,
					"securityContext":               object{"runAsNonRoot": true, "runAsUser": 1001, "runAsGroup": 1001, "seccompProfile": object{"type": "RuntimeDefault"}},
					"containers": list{object{
						"name":  "agent",
						"image": "sim.local/agent:1",
						"ports": list{object{"name": "agent", "containerPort": 1024, "protocol": "TCP"}},
						"env": list{
							object{"name": "NAMZU_AGENT_TCP_PORT", "value": agentPort},
							object{"name": "NAMZU_AGENT_SHUTDOWN_DEADLINE_MS", "value": "3000"},
							object{"name": "NAMZU_AGENT_BIND_TOKEN", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.uid"}}},
						},
						"readinessProbe":  object{"tcpSocket": object{"port": 1024}, "periodSeconds": 1},
						"resources":       object{"requests": object{"cpu": "100m", "memory": "256Mi"}, "limits": object{"memory": "512Mi"}},
						"securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": list{"ALL"}}},
					}},
				},
			},
		},
	}
}

// Pool is a SandboxWarmPool of that many members.
func Pool(name, template string, replicas int) map[string]any {
	return map[string]any{
		"metadata": object{"name": name},
		"spec":     object{"replicas": replicas, "sandboxTemplateRef": object{"name": template}},
	}
}

// account is who presents the token.
func (c *Config) account() string {
	return fmt.Sprintf("system:serviceaccount:%s:sandbox-host", c.Namespace)
}
