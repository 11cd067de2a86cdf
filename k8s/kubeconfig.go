package k8s

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
)

// maxKubeconfig bounds a kubeconfig with embedded certificates generously.
const maxKubeconfig = 4 << 20

type kubeconfig struct {
	Current  string `json:"current-context"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster   string `json:"cluster"`
			User      string `json:"user"`
			Namespace string `json:"namespace"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string      `json:"name"`
		Cluster kubeCluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string   `json:"name"`
		User kubeUser `json:"user"`
	} `json:"users"`
}

type kubeCluster struct {
	Server     string `json:"server"`
	CAData     string `json:"certificate-authority-data"`
	CAFile     string `json:"certificate-authority"`
	SkipVerify bool   `json:"insecure-skip-tls-verify"`
	ServerName string `json:"tls-server-name"`
	ProxyURL   string `json:"proxy-url"`
}

type kubeUser struct {
	Token     string `json:"token"`
	TokenFile string `json:"tokenFile"`
	CertData  string `json:"client-certificate-data"`
	CertFile  string `json:"client-certificate"`
	KeyData   string `json:"client-key-data"`
	KeyFile   string `json:"client-key"`

	// What cannot be honoured is looked for, to be refused by its name.
	Exec         json.RawMessage `json:"exec"`
	AuthProvider json.RawMessage `json:"auth-provider"`
	Username     string          `json:"username"`
	Password     string          `json:"password"`
	As           json.RawMessage `json:"as"`
	AsUID        json.RawMessage `json:"as-uid"`
	AsGroups     json.RawMessage `json:"as-groups"`
	AsExtra      json.RawMessage `json:"as-user-extra"`
}

// ParseKubeconfig reads a kubeconfig in the form of
//
//	kubectl config view --raw --minify -o json
//
// Relative paths in it are taken from dir, the folder of the kubeconfig. Files
// that it names are not read here but whenever they are needed, so that
// replacing them works. Its proxy-url becomes Config.Proxy, which may be set to
// something else afterwards; the environment's proxy is never used.
//
// An entry whose meaning would be lost is refused by name: exec, auth-provider,
// a password, impersonation, insecure-skip-tls-verify.
func ParseKubeconfig(data []byte, dir string) (Config, error) {
	bad := func(format string, args ...any) (Config, error) {
		return Config{}, fmt.Errorf("k8s: kubeconfig: "+format, args...)
	}
	if len(data) > maxKubeconfig {
		return bad("has %d bytes, at most %d are read", len(data), maxKubeconfig)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return bad("is not JSON; convert it with: kubectl config view --raw --minify -o json")
	}
	var k kubeconfig
	if err := json.Unmarshal(data, &k); err != nil {
		// The decoder's own text may quote a value.
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return bad("%s cannot be a JSON %s", t.Field, strings.Fields(t.Value + " value")[0])
		}
		return bad("is not JSON; convert it with: kubectl config view --raw --minify -o json")
	}
	if k.Current == "" {
		return bad("has no current-context; choose one with: kubectl config use-context")
	}
	context, ok := find(k.Contexts, func(i int) bool { return k.Contexts[i].Name == k.Current })
	if !ok {
		return bad("has no context %q, which is the current one", clip(k.Current, 300))
	}
	cluster, ok := find(k.Clusters, func(i int) bool { return k.Clusters[i].Name == context.Context.Cluster })
	if !ok {
		return bad("has no cluster %q, which its context names", clip(context.Context.Cluster, 300))
	}
	user, ok := find(k.Users, func(i int) bool { return k.Users[i].Name == context.Context.User })
	if !ok && context.Context.User != "" {
		return bad("has no user %q, whom its context names", clip(context.Context.User, 300))
	}

	c := Config{Namespace: context.Context.Namespace}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if err := cluster.Cluster.apply(&c, dir); err != nil {
		return bad("cluster %q: %w", clip(cluster.Name, 300), err)
	}
	if err := user.User.apply(&c, dir); err != nil {
		return bad("user %q: %w", clip(user.Name, 300), err)
	}
	return c, nil
}

func find[E any](list []E, is func(int) bool) (e E, ok bool) {
	for i := range list {
		if is(i) {
			return list[i], true
		}
	}
	return e, false
}

func (k kubeCluster) apply(c *Config, dir string) error {
	c.Server, c.ServerName = k.Server, k.ServerName
	if k.SkipVerify {
		return errors.New("insecure-skip-tls-verify is set, and whoever answers would get the credential; give the server's CA in certificate-authority-data instead")
	}
	ca, err := materialOf("certificate-authority", k.CAData, k.CAFile, dir)
	if err != nil {
		return err
	}
	c.CA, c.CAFile = ca.inline, ca.file
	if k.ProxyURL == "" {
		return nil
	}
	// The URL may hold a password and is not repeated.
	u, err := url.Parse(k.ProxyURL)
	if err != nil || u.Host == "" {
		return errors.New("proxy-url is not a URL such as http://proxy.example:3128")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return errors.New("proxy-url must begin with http://, https:// or socks5://")
	}
	c.Proxy = http.ProxyURL(u)
	return nil
}

func (k kubeUser) apply(c *Config, dir string) error {
	for _, no := range []struct {
		name string
		set  bool
		why  string
	}{
		{"exec", isSet(k.Exec), "programs are not run from here; set Config.Token to a function that runs one, such as kubectl create token"},
		{"auth-provider", isSet(k.AuthProvider), "Kubernetes has removed it; set Config.Token to a function that runs a token command"},
		{"username", k.Username != "" || k.Password != "", "Kubernetes has removed passwords; use a token or a client certificate"},
		{"as", isSet(k.As) || isSet(k.AsUID) || isSet(k.AsGroups) || isSet(k.AsExtra), "impersonation is not supported, and without it another user would act"},
	} {
		if no.set {
			return fmt.Errorf("has an entry %s: %s", no.name, no.why)
		}
	}
	switch {
	case k.TokenFile != "":
		c.Token = tokenFile(resolve(k.TokenFile, dir))
	case k.Token != "":
		token, err := checkToken(k.Token)
		if err == nil && token == omitted[1] {
			err = errOmitted
		}
		if err != nil {
			return err
		}
		c.Token = func(context.Context) (string, error) { return token, nil }
	}
	cert, err := materialOf("client-certificate", k.CertData, k.CertFile, dir)
	if err != nil {
		return err
	}
	key, err := materialOf("client-key", k.KeyData, k.KeyFile, dir)
	if err != nil {
		return err
	}
	switch {
	case cert.given() != key.given():
		return errors.New("has only one of client-certificate and client-key")
	case !cert.given():
		return nil
	}
	if cert.file == "" && key.file == "" {
		if _, err := keyPair(cert.inline, key.inline); err != nil {
			return err
		}
	}
	c.ClientCertificate = certificateSource(cert, key)
	return nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// omitted is what kubectl prints for secrets without --raw.
var omitted = [...]string{"DATA+OMITTED", "REDACTED"}

var errOmitted = errors.New("its secrets are left out; print it with: kubectl config view --raw --minify -o json")

// materialOf reads a pair of entries, of which the one with the data wins, as in
// kubectl. The base64 may be wrapped, as YAML block scalars are.
func materialOf(name, data, file, dir string) (material, error) {
	if data == "" {
		if file == "" {
			return material{}, nil
		}
		return material{file: resolve(file, dir)}, nil
	}
	data = strings.Join(strings.Fields(data), "")
	for _, s := range omitted {
		if data == s {
			return material{}, errOmitted
		}
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(b) == 0 {
		return material{}, fmt.Errorf("%s-data is not base64", name)
	}
	return material{inline: b}, nil
}

func resolve(file, dir string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}
