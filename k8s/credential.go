package k8s

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxToken bounds a bearer token: API servers take no header near this.
const maxToken = 64 << 10

// maxAsking bounds how many requests can be waiting for Config.Token at a time,
// and with it how many goroutines a callback that never returns can hold.
const maxAsking = 256

type refusedKey struct{}

// Refused reports whether the server has just refused the token that the source
// gave for the same request. A source that caches should ask for a new one
// then; if it gives the same again, the refusal is final.
func Refused(ctx context.Context) bool {
	refused, _ := ctx.Value(refusedKey{}).(bool)
	return refused
}

// A credential is what one request is sent with.
type credential struct {
	token     string
	transport *http.Transport
}

// credential asks for the token, and looks at the files that the connection is
// trusted by. The callback runs in a goroutine of its own: if it ignores its
// context the request does not wait for it, and what it says later is dropped.
func (co *core) credential(ctx context.Context, refused bool) (credential, error) {
	if refused {
		ctx = context.WithValue(ctx, refusedKey{}, true)
	}
	select {
	case co.asking <- struct{}{}:
	case <-ctx.Done():
		return credential{}, ctx.Err()
	}
	type outcome struct {
		credential
		err error
	}
	got := make(chan outcome, 1)
	go func() {
		defer func() { <-co.asking }()
		defer close(got) // a callback may end its goroutine
		var o outcome
		if co.cfg.Token != nil {
			o.token, o.err = askToken(ctx, co.cfg.Token)
		}
		if o.err == nil {
			o.transport, o.err = co.transports.get(ctx, refused)
		}
		got <- o
	}()
	select {
	case o, ok := <-got:
		if !ok {
			return credential{}, errors.New("its source ended without an answer")
		}
		return o.credential, o.err
	case <-ctx.Done():
		return credential{}, ctx.Err()
	}
}

func askToken(ctx context.Context, source func(context.Context) (string, error)) (string, error) {
	token, err := source(ctx)
	if err != nil {
		return "", fmt.Errorf("the token source failed: %w", err)
	}
	return checkToken(token)
}

// checkToken trims what files and programs leave around a token and refuses what
// a header cannot hold, without repeating any of it.
func checkToken(token string) (string, error) {
	token = strings.TrimSpace(token)
	switch {
	case token == "":
		return "", errors.New("the token is empty")
	case len(token) > maxToken:
		return "", fmt.Errorf("the token has %d bytes, at most %d can be sent", len(token), maxToken)
	case strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		return "", errors.New("the token holds blanks, control or non-ASCII characters; it is not a bearer token")
	}
	return token, nil
}

// tokenFile is a source that reads a file on every request, because the kubelet
// replaces it within the life of the program.
func tokenFile(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		b, err := readFile(name)
		if err != nil {
			return "", err
		}
		return string(b), nil
	}
}
