package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandlot-go/sandlot/internal/guest"
)

const (
	agentPort = "1024"

	// addressTries bounds the search for a loopback address whose port is free:
	// other clusters may run on the machine.
	addressTries = 100
)

// A guestRun is a guest agent at work.
type guestRun struct {
	server *guest.Server
	ip     string
	served chan struct{} // closed when Serve has returned
}

// stop ends the guest at once and waits for it.
func (g *guestRun) stop() {
	g.server.Close()
	<-g.served
}

// terminate is what a deletion does: SIGTERM, and the end of what is left when
// the grace, or the whole cluster, is over.
func (g *guestRun) terminate(grace time.Duration, done <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	finished := make(chan struct{})
	go func() { // joined below
		defer close(finished)
		g.server.Shutdown(ctx)
	}()
	select {
	case <-finished:
	case <-done:
		cancel()
		<-finished
	}
	g.stop()
}

func (c *Cluster) podFolder(id string) string { return filepath.Join(c.root, "pods", id) }

// startGuest runs the agent of a pod at the address, or at a new one.
func (c *Cluster) startGuest(pod object, ip, disk string) (*guestRun, error) {
	folder := c.podFolder(uid(pod))
	home, workspace := filepath.Join(folder, "home"), filepath.Join(folder, "workspace")
	if disk != "" {
		workspace = filepath.Join(c.root, "disks", disk)
	}
	for _, d := range []string{home, workspace} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	l, ip, err := c.listen(ip)
	if err != nil {
		return nil, err
	}
	config, _, err := guest.ConfigFromEnv(environment(pod, ip, home, workspace))
	if err != nil {
		l.Close()
		return nil, err
	}
	config.Token, config.RequireToken, config.Workspace = uid(pod), true, workspace
	config.Confine = setting(pod, privilegedKey) != "true"
	if c.cfg.Guest != nil {
		c.cfg.Guest(clone(pod), &config)
	}
	server, err := guest.New(config)
	if err != nil {
		l.Close()
		return nil, err
	}
	run := &guestRun{server: server, ip: ip, served: make(chan struct{})}
	c.wg.Go(func() {
		defer close(run.served)
		server.Serve(l)
	})
	return run, nil
}

// listen takes the address, or finds one that is free.
func (c *Cluster) listen(ip string) (net.Listener, string, error) {
	given := ip != ""
	for try := 0; ; try++ {
		if !given {
			c.mu.Lock()
			ip = c.world.address()
			c.mu.Unlock()
		}
		address := net.JoinHostPort(ip, agentPort)
		var l net.Listener
		var err error
		if n := c.cfg.Network; n != nil {
			l, err = n.Listen("tcp", address)
		} else {
			l, err = net.Listen("tcp", address)
		}
		if err == nil {
			return l, ip, nil
		}
		if given || try == addressTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, "", err
		}
	}
}

// environment is what the pod's first container starts with: its literal
// variables and those that are fields of the pod.
func environment(pod object, ip, home, workspace string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "LANG=C.UTF-8"}
	fields := map[string]string{"metadata.uid": uid(pod), "metadata.name": name(pod), "metadata.namespace": namespace(pod), "status.podIP": ip, "spec.nodeName": nodeName}
	if containers := items(pod, "spec", "containers"); len(containers) > 0 {
		for _, v := range items(containers[0], "env") {
			value, ok := at(v, "value").(string)
			if !ok {
				value, ok = fields[text(v, "valueFrom", "fieldRef", "fieldPath")]
			}
			if ok {
				env = append(env, text(v, "name")+"="+value)
			}
		}
	}
	return append(env, "NAMZU_SANDBOX_WORKSPACE="+workspace, "NAMZU_AGENT_ADDR="+ip, "NAMZU_AGENT_TCP_PORT="+agentPort, "NAMZU_AGENT_BIND_TOKEN="+uid(pod))
}

// RestartGuest ends the guest of a pod, as a crash would, and has another
// started in the same pod at the same address.
func (c *Cluster) RestartGuest(pod string) error { return c.endGuest(pod, true) }

// KillGuest ends the guest of a pod and lets the pod look as if it ran on.
func (c *Cluster) KillGuest(pod string) error { return c.endGuest(pod, false) }

func (c *Cluster) endGuest(pod string, again bool) error {
	c.mu.Lock()
	o := c.world.get(pods, place{c.cfg.Namespace, pod})
	s := c.world.pods[uid(o)]
	if s == nil || s.guest == nil {
		c.mu.Unlock()
		return fmt.Errorf("sim: pod %q has no guest", pod)
	}
	run := s.guest
	c.mu.Unlock()
	run.stop()
	if !again {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.guest == run && !s.ending {
		s.last = object{"exitCode": int64(137), "reason": "Error", "startedAt": utc(s.began), "finishedAt": c.world.stamp()}
		s.guest, s.restarts = nil, s.restarts+1
		c.world.after(0, podTask, placeOf(o))
	}
	return nil
}
