package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// serviceAccountDir is where the kubelet puts a pod's credential. See "Accessing
// the Kubernetes API from a Pod" in the Kubernetes documentation.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns the configuration of a pod: the server from
// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, token, CA and namespace
// from the mounted service account. Token and CA are read again as they are
// replaced. No proxy is used, whatever the environment says.
//
// Namespace is "" if the pod has no such file; then the caller has to set it.
func InCluster() (Config, error) { return inCluster(serviceAccountDir, os.Getenv) }

func inCluster(dir string, getenv func(string) string) (Config, error) {
	server, err := serviceURL(getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"))
	if err != nil {
		return Config{}, err
	}
	token := filepath.Join(dir, "token")
	b, err := readFile(token)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("k8s: this pod has no service account token; is automountServiceAccountToken false? %w", err)
	}
	if err == nil {
		_, err = checkToken(string(b))
	}
	if err != nil {
		return Config{}, fmt.Errorf("k8s: the service account token in %s cannot be used: %w", token, err)
	}
	ns, err := readFile(filepath.Join(dir, "namespace"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("k8s: the service account's namespace cannot be read: %w", err)
	}
	return Config{
		Server:    server,
		CAFile:    filepath.Join(dir, "ca.crt"),
		Token:     tokenFile(token),
		Namespace: strings.TrimSpace(string(ns)),
	}, nil
}

// serviceURL makes the server's URL of what the kubelet puts into a pod's
// environment. An IPv6 address gets one pair of brackets, whether it comes with
// brackets or without, and a zone may be escaped already.
func serviceURL(host, port string) (string, error) {
	if host == "" || port == "" {
		return "", errors.New("k8s: not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must both be set")
	}
	if !validPort(port) {
		return "", fmt.Errorf("k8s: KUBERNETES_SERVICE_PORT %q is no port", clip(port, 100))
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, _ = strings.CutSuffix(inner, "]")
	}
	if address, zone, ok := strings.Cut(host, "%25"); ok {
		host = address + "%" + zone
	}
	if strings.ContainsAny(host, "/?#@[]\\ ") {
		return "", fmt.Errorf("k8s: KUBERNETES_SERVICE_HOST %q is no host", clip(host, 300))
	}
	return (&url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}).String(), nil
}
