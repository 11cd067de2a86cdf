package k8s_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandlot-go/sandlot/k8s"
)

// tokens is a source that gives one token after the other, and the last one for
// ever.
func tokens(list ...string) (source func(context.Context) (string, error), asked *[]bool) {
	asked = new([]bool)
	return func(ctx context.Context) (string, error) {
		*asked = append(*asked, k8s.Refused(ctx))
		return list[min(len(*asked), len(list))-1], nil
	}, asked
}

// accept answers 401 to all but one token.
func accept(token string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			reply(w, 401, failure(401, "Unauthorized"))
			return
		}
		reply(w, 200, claim("a"))
	}
}

func TestTheTokenIsAskedForOnEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, asked := tokens("T1", "T2\r\n", "\tT3 \n")
		client, server := serve(t, always(200, claim("a")), func(c *k8s.Config) { c.Token = source })
		for range 3 {
			if err := get(t.Context(), client); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range server.requests() {
			if got, want := r.Header.Get("Authorization"), fmt.Sprintf("Bearer T%d", i+1); got != want {
				t.Errorf("request %d has %q, want %q", i, got, want)
			}
		}
		if len(*asked) != 3 {
			t.Errorf("asked %d times, want 3", len(*asked))
		}
	})
}

func TestA401IsRepeatedOnceWithAFreshToken(t *testing.T) {
	for _, c := range []struct {
		why      string
		tokens   []string
		accepts  string
		requests int
		kind     k8s.Kind
		text     string
	}{
		{"the fresh token is good", []string{"T1", "T2"}, "T2", 2, "", ""},
		{"the fresh token is refused too", []string{"T1", "T2"}, "T3", 2, k8s.Unauthorized, "a fresh credential was refused too"},
		{"the source gives the same token", []string{"T1"}, "T2", 1, k8s.Unauthorized, "the source still gives the credential that was refused"},
		{"it gives the same with a line feed", []string{"T1", "T1\n"}, "T2", 1, k8s.Unauthorized, "the source still gives"},
		{"the source has nothing else", []string{"T1", ""}, "T2", 1, k8s.Unauthorized, "there is no other credential: the token is empty"},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(method+" "+c.why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source, asked := tokens(c.tokens...)
					client, server := serve(t, accept(c.accepts), func(cfg *k8s.Config) { cfg.Token = source })
					var told []k8s.RequestInfo
					ctx := k8s.WithTrace(t.Context(), &k8s.Trace{Request: func(i k8s.RequestInfo) { told = append(told, i) }})
					var err error
					if method == "GET" {
						err = get(ctx, client)
					} else {
						err = post(ctx, client)
					}
					if k8s.KindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.text) {
						t.Errorf("got %v, want kind %q and %q", err, c.kind, c.text)
					}
					if e, ok := asAPIError(err); ok && !e.NotApplied {
						t.Error("what is refused by 401 is not applied")
					}
					log := server.requests()
					if len(log) != c.requests || len(told) != c.requests {
						t.Fatalf("%d requests and %d told of, want %d", len(log), len(told), c.requests)
					}
					if len(log) == 2 && (log[0].Body != log[1].Body || told[0].Retry || !told[1].Retry || told[0].Kind != k8s.Unauthorized) {
						t.Errorf("the repetition differs: %q, %q, trace %+v", log[0].Body, log[1].Body, told)
					}
					if want := []bool{false, true}; len(*asked) != 2 || (*asked)[0] != want[0] || (*asked)[1] != want[1] {
						t.Errorf("Refused was %v, want %v", *asked, want)
					}
				})
			})
		}
	}
}

func TestA403IsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, _ := tokens("T1", "T2")
		client, server := serve(t, play(t, "403-create"), func(c *k8s.Config) { c.Token = source })
		err := post(t.Context(), client)
		apiError(t, err, k8s.Forbidden)
		server.one(t)
		if !strings.Contains(err.Error(), "cannot create resource") || strings.Contains(err.Error(), "T1") {
			t.Errorf("%q must say what is not allowed, without the token", err)
		}
	})
}

func TestTokensThatNoHeaderCanHold(t *testing.T) {
	for why, token := range map[string]string{
		"empty":           "",
		"blank":           " \r\n\t",
		"line feed in it": secret + "\n" + secret,
		"blank in it":     secret + " x",
		"NUL in it":       secret + "\x00",
		"not ASCII":       secret + "ä",
		"far too long":    strings.Repeat("x", k8s.MaxToken+1),
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := serve(t, always(200, claim("a")), func(c *k8s.Config) {
					c.Token = func(context.Context) (string, error) { return token, nil }
				})
				err := get(t.Context(), client)
				if e := apiError(t, err, k8s.Credential); !e.NotApplied {
					t.Error("nothing was sent")
				}
				if strings.Contains(err.Error(), secret) || len(err.Error()) > 500 {
					t.Errorf("the error repeats the token: %.200q", err)
				}
				if len(server.requests()) != 0 {
					t.Error("a request was made")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", k8s.MaxToken)
		client, server := serve(t, always(200, claim("a")), func(c *k8s.Config) {
			c.Token = func(context.Context) (string, error) { return long, nil }
		})
		if err := get(t.Context(), client); err != nil {
			t.Fatalf("a token of exactly the limit: %v", err)
		}
		if got := server.one(t).Header.Get("Authorization"); got != "Bearer "+long {
			t.Errorf("it arrived with %d bytes", len(got))
		}
	})
}

func TestATokenSourceThatHangsDoesNotHangTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		client, server := serve(t, always(200, claim("a")), func(c *k8s.Config) {
			c.RequestTimeout = time.Second
			c.Token = func(context.Context) (string, error) { <-release; return secret, nil } // deaf to its context
		})
		start := time.Now()
		err := get(t.Context(), client)
		e := apiError(t, err, k8s.Timeout)
		if took := time.Since(start); took != time.Second || !e.NotApplied {
			t.Errorf("it took %v, NotApplied %v, want 1s, true", took, e.NotApplied)
		}
		for _, want := range []string{"RequestTimeout", "it was not sent", "Config.Token"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if len(server.requests()) != 0 {
			t.Error("a request was made without a token")
		}
		close(release)
	})
}

func TestHowManyTokenSourcesCanHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked atomic.Int64
		client, _ := serve(t, always(200, claim("a")), func(c *k8s.Config) {
			c.RequestTimeout = time.Second
			c.Token = func(context.Context) (string, error) { asked.Add(1); <-release; return secret, nil }
		})
		for range 3 {
			var wg sync.WaitGroup
			for range k8s.MaxAsking {
				wg.Go(func() {
					if kind := k8s.KindOf(get(t.Context(), client)); kind != k8s.Timeout {
						t.Errorf("got kind %q", kind)
					}
				})
			}
			wg.Wait()
		}
		if got := asked.Load(); got != k8s.MaxAsking {
			t.Errorf("the source was asked %d times at once, want %d", got, k8s.MaxAsking)
		}
		close(release)
		synctest.Wait()
		if err := get(t.Context(), client); err != nil {
			t.Errorf("when the source answers again: %v", err)
		}
	})
}

func TestATokenSourceThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, always(200, claim("a")), func(c *k8s.Config) {
			c.Token = func(context.Context) (string, error) { runtime.Goexit(); return "", nil }
		})
		err := get(t.Context(), client)
		apiError(t, err, k8s.Credential)
	})
}

func TestTheErrorOfATokenSourceIsInTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealed := errors.New("the vault is sealed")
		client, _ := serve(t, always(200, claim("a")), func(c *k8s.Config) {
			c.Token = func(context.Context) (string, error) { return "", fmt.Errorf("asking: %w", sealed) }
		})
		if err := get(t.Context(), client); !errors.Is(err, sealed) {
			t.Errorf("%v does not wrap the source's error", err)
		}
	})
}
