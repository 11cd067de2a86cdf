package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
	"github.com/sandlot-go/sandlot/policy"
	"github.com/sandlot-go/sandlot/transport"
)

// What the examples begin with.
var (
	ctx     = context.Background()
	backend *acquire.Backend
	sandbox *acquire.Sandbox
)

// This is the README's program.
func Example() {
	ctx := context.Background()
	cluster, err := k8s.InCluster() // or k8s.Config{Server, CA, Token, Namespace}
	if err != nil {
		log.Fatal(err)
	}
	client, err := k8s.New(cluster)
	if err != nil {
		log.Fatal(err)
	}
	backend, err := acquire.New(client, acquire.Config{
		Template: "task",
		Pool:     "pool", // empty: Sandboxes are created directly
		Egress:   &policy.Egress{Policy: policy.DenyAll{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close(ctx)

	sandbox, err := backend.Create(ctx, acquire.Options{}) // ready, verified, deprivileged, leased; or an *acquire.Error
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Release(ctx)
	if _, err := sandbox.WriteFile(ctx, "data/in.txt", strings.NewReader("40 2\n")); err != nil {
		log.Fatal(err)
	}
	out, err := sandbox.Command(ctx, "awk", "{print $1+$2}", "data/in.txt").Output()
	fmt.Printf("%s%v\n", out, err)
}

func ExampleBackend_Create() {
	sandbox, err := backend.Create(ctx, acquire.Options{})
	if failed, ok := errors.AsType[*acquire.Error](err); ok && failed.Retryable {
		log.Fatalf("try again after %v: %v", failed.RetryAfter, failed)
	}
	if err != nil {
		log.Fatal(err) // ctx has ended, or it will fail again
	}
	defer sandbox.Release(ctx)
}

// A server that runs in the sandbox is reached by an http.Client whose
// connections go through the guest.
func ExampleSandbox_DialGuest() {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return sandbox.DialGuest(ctx, 8000) },
	}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://sandbox/")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	io.Copy(os.Stdout, response.Body)
}

// A program whose output the guest keeps can be followed from elsewhere, also
// after its end.
func ExampleSandbox_Attach() {
	build := sandbox.Command(ctx, "make", "all")
	build.Retain()
	if err := build.Start(); err != nil {
		log.Fatal(err)
	}
	build.Detach()
	build.Wait()

	attached := sandbox.Attach(ctx, build.ID, 0)
	attached.Stdout, attached.Stderr = os.Stdout, os.Stderr
	if err := attached.Run(); err != nil {
		log.Fatal(err)
	}
}

func ExampleSandbox_OpenTerminal() {
	terminal, err := sandbox.OpenTerminal(ctx, transport.TerminalConfig{Cols: 120, Rows: 40})
	if err != nil {
		log.Fatal(err)
	}
	defer terminal.Close()
	if _, err := io.WriteString(terminal, "stty size; exit\n"); err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(os.Stdout, terminal); err != nil {
		log.Fatal(err)
	}
	fmt.Println(terminal.Wait())
}

func ExampleSandbox_PutTree() {
	report, err := sandbox.PutTree(ctx, "src", os.DirFS("project"), transport.TreeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range report.Skipped {
		log.Printf("%s was left out: %s", s.Path, s.Reason)
	}
	if err := sandbox.Command(ctx, "make", "-C", "src").Run(); err != nil {
		log.Fatal(err)
	}
	out, err := os.OpenRoot("out")
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	if _, err := sandbox.GetTree(ctx, out, "src/out", transport.TreeOptions{}); err != nil {
		log.Fatal(err)
	}
}
