package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

// guestList lists what it was told, in the order of the names, even when the list
// turns out not to be whole, which the exit code and standard error say.
func guestList(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	dir := "."
	if len(o.args) > 0 {
		dir = o.args[0]
	}
	entries := agent.List(ctx, dir)
	if o.deep {
		entries = agent.Walk(ctx, dir, transport.WalkOptions{})
	}
	var list []transport.Entry
	var failure error // the last thing that comes
	for entry, err := range entries {
		if failure = err; err == nil {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(a, b transport.Entry) int { return strings.Compare(a.Path, b.Path) })
	w := bufio.NewWriter(s.stdout)
	for _, entry := range list {
		link := ""
		if entry.Link != "" {
			link = " -> " + printable(entry.Link)
		}
		fmt.Fprintf(w, "%v %12d %s %s%s\n", entry.Mode, entry.Size, entry.ModTime.UTC().Format(time.RFC3339), printable(entry.Path), link)
	}
	if err := errors.Join(failure, w.Flush()); err != nil {
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
	if err == nil || report.Files > 0 {
		fmt.Fprintf(s.stderr, "smoke: copied %s, %d bytes\n", count(report.Files, "file"), report.Bytes)
	}
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

// getTree makes the directory if there is none; its parent must be there. One
// that nothing came into is not left behind.
func getTree(ctx context.Context, agent *transport.Agent, remote, local string) (_ transport.TreeReport, err error) {
	made := os.Mkdir(local, 0o777)
	if made != nil && !os.IsExist(made) {
		return transport.TreeReport{}, made
	}
	defer func() {
		if err != nil && made == nil {
			os.Remove(local) // unless there is something in it
		}
	}()
	root, err := os.OpenRoot(local)
	if err != nil {
		return transport.TreeReport{}, err
	}
	defer root.Close()
	return agent.GetTree(ctx, root, remote, transport.TreeOptions{})
}
