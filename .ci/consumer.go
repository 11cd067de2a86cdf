// Command consumer is a host at its smallest: it creates a sandbox, runs a
// program in it and gives it back. The footprint and vendoring checks build it
// as a module of its own.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sandlot-go/sandlot/acquire"
	"github.com/sandlot-go/sandlot/k8s"
)

func run(ctx context.Context) error {
	cluster, err := k8s.InCluster()
	if err != nil {
		return err
	}
	client, err := k8s.New(cluster)
	if err != nil {
		return err
	}
	backend, err := acquire.New(client, acquire.Config{Template: "task", Pool: "pool"})
	if err != nil {
		return err
	}
	defer backend.Close(ctx)
	sandbox, err := backend.Create(ctx, acquire.Options{})
	if err != nil {
		return err
	}
	defer sandbox.Release(ctx)
	out, err := sandbox.Command(ctx, "python3", "-c", "print(40+2)").Output()
	fmt.Printf("%s", out)
	return err
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
