package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// guestList lists what it was told even when the list turns out not to be
// whole, which the exit code and standard error say.
func guestList(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	dir := "."
	if len(o.args) > 0 {
		dir = o.args[0]
	}
	entries := agent.List(ctx, dir)
	if o.deep {
		entries = agent.Walk(ctx, dir, transport.WalkOptions{})
	}
	w := bufio.NewWriter(s.stdout)
	for entry, err := range entries {
		if err != nil {
			w.Flush()
			return exitFailed, err
		}
		link := ""
		if entry.Link != "" {
			link = " -> " + printable(entry.Link)
		}
		fmt.Fprintf(w, "%v %12d %s %s%s\n", entry.Mode, entry.Size, entry.ModTime.UTC().Format(time.RFC3339), printable(entry.Path), link)
	}
	if err := w.Flush(); err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}

func guestTree(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	var report transport.TreeReport
	var err error
	switch from, to := o.args[1], o.args[2]; o.args[0] {
	case "put":
		report, err = putTree(ctx, agent, from, to)
	case "get":
		report, err = getTree(ctx, agent, from, to)
	default:
		err = usagef("tree takes put or get, not %q", o.args[0])
	}
	if _, misused := err.(*usageError); misused {
		return exitFailed, err
	}
	for _, skipped := range report.Skipped {
		fmt.Fprintf(s.stderr, "smoke: left out %s: %s\n", printable(skipped.Path), printable(skipped.Reason))
	}
	fmt.Fprintf(s.stderr, "smoke: copied %d files, %d bytes\n", report.Files, report.Bytes)
	if err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}

func putTree(ctx context.Context, agent *transport.Agent, local, remote string) (transport.TreeReport, error) {
	root, err := os.OpenRoot(local)
	if err != nil {
		return transport.TreeReport{}, err
	}
	defer root.Close()
	return agent.PutTree(ctx, remote, root.FS(), transport.TreeOptions{})
}

// getTree makes the directory if there is none; its parent must be there.
func getTree(ctx context.Context, agent *transport.Agent, remote, local string) (transport.TreeReport, error) {
	if err := os.Mkdir(local, 0o777); err != nil && !os.IsExist(err) {
		return transport.TreeReport{}, err
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return transport.TreeReport{}, err
	}
	defer root.Close()
	return agent.GetTree(ctx, root, remote, transport.TreeOptions{})
}
