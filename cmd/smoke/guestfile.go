package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sandlot-go/sandlot/transport"
)

func guestPut(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	local, remote := o.args[0], o.args[1]
	r := heed(ctx, s.stdin)
	if local != "-" {
		f, err := openHeeding(ctx, local)
		if err != nil {
			return exitFailed, err
		}
		defer f.Close()
		r = f
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			r = heed(ctx, f) // it may say nothing for long
		}
	}
	n, err := agent.WriteFile(ctx, remote, r)
	if err != nil {
		return exitFailed, err
	}
	fmt.Fprintf(s.stderr, "smoke: wrote %d bytes to %s\n", n, printable(remote))
	return exitOK, nil
}

func guestGet(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	remote, local := o.args[0], o.args[1]
	if local != "-" {
		if err := checkDestination(local); err != nil {
			return exitFailed, err
		}
	}
	read := func(w io.Writer) error {
		_, err := agent.ReadFileTo(ctx, remote, w)
		return err
	}
	var err error
	if local == "-" {
		err = read(s.stdout)
	} else {
		err = replaceFile(local, read)
	}
	if err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}
