package k8s

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// An HTTP/2 connection that has been silent for pingAfter is pinged, and closed
// if no answer comes within pingTimeout. Without this a connection whose other
// end has vanished fails every request until the kernel gives it up.
const (
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
)

const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	idlePerHost      = 128       // there is one host
	maxHeader        = 256 << 10 // of an answer, in bytes
)

// transports hands out the http.Transport of one client. There is one at a
// time. It is replaced when the CA file or the client certificate has changed,
// so that no connection that was verified by the old ones is taken again; those
// that are in use finish their requests.
type transports struct {
	cfg Config

	// mu guards what follows. It is held while a file is read: the requests that
	// wait for it need the outcome.
	mu      sync.Mutex
	current *http.Transport
	ca      []byte         // what current trusts
	roots   *x509.CertPool // the same parsed; nil = the system's

	leafMu sync.Mutex // guards leaf
	leaf   []byte     // the certificate of the last handshake
}

func newTransports(cfg Config) (*transports, error) {
	t := &transports{cfg: cfg}
	pem := cfg.CA
	if cfg.CAFile != "" {
		var err error
		if pem, err = readFile(cfg.CAFile); err != nil {
			return nil, &ConfigError{Field: "CAFile", Problem: "cannot be read", Err: err}
		}
	}
	if cfg.CAFile != "" || len(cfg.CA) > 0 {
		var err error
		if t.roots, err = parseCA(pem); err != nil {
			field := "CA"
			if cfg.CAFile != "" {
				field = "CAFile"
			}
			return nil, &ConfigError{Field: field, Problem: "trusts nobody", Err: err}
		}
	}
	t.ca = bytes.Clone(pem)
	t.current = t.build()
	return t, nil
}

// get returns the transport to use now. After a refusal it also asks whether the
// client certificate is still the one that the connections were made with.
func (t *transports) get(ctx context.Context, refused bool) (*http.Transport, error) {
	renew := false
	if refused && t.cfg.ClientCertificate != nil {
		cert, err := t.cfg.ClientCertificate(ctx)
		if err != nil {
			return nil, fmt.Errorf("the source of the client certificate failed: %w", err)
		}
		renew = !bytes.Equal(leafOf(cert), t.lastLeaf())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cfg.CAFile != "" {
		// A file that is missing or broken is in the middle of being replaced:
		// what was trusted last stays in force, and nothing else is trusted.
		if pem, err := readFile(t.cfg.CAFile); err == nil && !bytes.Equal(pem, t.ca) {
			if pool, err := parseCA(pem); err == nil {
				t.ca, t.roots, renew = pem, pool, true
			}
		}
	}
	if renew {
		old := t.current
		t.current = t.build()
		old.CloseIdleConnections()
	}
	return t.current, nil
}

func (t *transports) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}

// build makes a transport of what is trusted now. Nobody else may hold t, or mu
// is held.
func (t *transports) build() *http.Transport {
	return &http.Transport{
		Proxy:       t.cfg.Proxy,
		DialContext: t.cfg.DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion:           tls.VersionTLS12,
			RootCAs:              t.roots,
			ServerName:           t.cfg.ServerName,
			GetClientCertificate: t.clientCertificate(),
		},
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true, // a transport with its own TLS config does not by itself
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// clientCertificate is the callback of a handshake, nil without a certificate.
func (t *transports) clientCertificate() func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if t.cfg.ClientCertificate == nil {
		return nil
	}
	return func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := t.cfg.ClientCertificate(info.Context())
		if err != nil {
			return nil, &certificateError{err}
		}
		t.leafMu.Lock()
		t.leaf = leafOf(cert)
		t.leafMu.Unlock()
		if cert == nil {
			cert = new(tls.Certificate) // none is sent
		}
		return cert, nil
	}
}

func (t *transports) lastLeaf() []byte {
	t.leafMu.Lock()
	defer t.leafMu.Unlock()
	return t.leaf
}

func leafOf(cert *tls.Certificate) []byte {
	if cert == nil || len(cert.Certificate) == 0 {
		return nil
	}
	return cert.Certificate[0]
}

// A certificateError comes out of a handshake whose client certificate could
// not be had. It tells that failure from those of the network.
type certificateError struct{ err error }

func (e *certificateError) Error() string {
	return "the source of the client certificate failed: " + e.err.Error()
}

func (e *certificateError) Unwrap() error { return e.err }

// parseCA reads PEM certificates. At least one has to be there, and each has to
// be readable: one that is skipped in silence is one that an operator believes
// to be trusted.
func parseCA(data []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be parsed: %w", n+1, err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, errors.New("there is no PEM certificate in it")
	}
	return pool, nil
}
