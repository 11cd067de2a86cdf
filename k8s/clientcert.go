package k8s

import (
	"context"
	"crypto/tls"
	"errors"
)

// keyPair makes a certificate of two PEM blobs. Its errors never hold any of the
// key.
func keyPair(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New("the client certificate and its key are no PEM pair that belongs together")
	}
	return &pair, nil
}

// A material is something that a kubeconfig gives either inline or by the path
// of a file. A file stays a path and is read on each use, because its owner
// replaces it.
type material struct {
	inline []byte
	file   string
}

func (m material) given() bool { return m.file != "" || len(m.inline) > 0 }

func (m material) read() ([]byte, error) {
	if m.file != "" {
		return readFile(m.file)
	}
	return m.inline, nil
}

// certificateSource is a ClientCertificate callback over such material. The key
// is held by the closure, where no formatting verb reaches it.
func certificateSource(cert, key material) func(context.Context) (*tls.Certificate, error) {
	return func(context.Context) (*tls.Certificate, error) {
		c, err := cert.read()
		if err != nil {
			return nil, err
		}
		k, err := key.read()
		if err != nil {
			return nil, err
		}
		return keyPair(c, k)
	}
}
