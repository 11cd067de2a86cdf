package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandlot-go/sandlot/transport"
)

func guestSessions(ctx context.Context, agent *transport.Agent, o guestOptions, s streams) (int, error) {
	var err error
	switch {
	case len(o.args) == 0:
		err = listSessions(ctx, agent, s)
	case len(o.args) == 2 && o.args[0] == "read":
		err = readSession(ctx, agent, o.args[1], s)
	case len(o.args) == 2 && o.args[0] == "kill":
		err = killSession(ctx, agent, o.args[1], s)
	default:
		err = usagef("sessions takes nothing, read ID or kill ID, not %q", strings.Join(o.args, " "))
	}
	if err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}

func listSessions(ctx context.Context, agent *transport.Agent, s streams) error {
	sessions, err := agent.Sessions(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tSTARTED\tOUTPUT\tPROGRAM")
	for _, one := range sessions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", printable(one.ID), sessionState(one),
			one.Started.UTC().Format(time.RFC3339), one.NextOffset, printable(strings.Join(append([]string{one.Path}, one.Args...), " ")))
	}
	return w.Flush()
}

// sessionState is one word for how a session is.
func sessionState(one transport.Session) string {
	switch {
	case one.Running && one.Attached:
		return "attached"
	case one.Running:
		return "running"
	case one.Signal > 0:
		return fmt.Sprintf("signal-%d", one.Signal)
	}
	return fmt.Sprintf("exited-%d", one.ExitCode)
}

func readSession(ctx context.Context, agent *transport.Agent, id string, s streams) error {
	out, err := agent.ReadSession(ctx, id, 0)
	if err != nil {
		return err
	}
	if out.Gap != (transport.Gap{}) {
		reportGap(s)(out.Gap)
	}
	for _, piece := range out.Pieces {
		w := s.stdout
		if piece.Stderr {
			w = s.stderr
		}
		if _, err := w.Write([]byte(piece.Text)); err != nil {
			return err
		}
	}
	return nil
}

func killSession(ctx context.Context, agent *transport.Agent, id string, s streams) error {
	one, err := agent.KillSession(ctx, id, "")
	if err != nil {
		return err
	}
	if one.Running {
		return fmt.Errorf("session %s was sent SIGKILL and has not ended: one of its processes holds its output", printable(id))
	}
	fmt.Fprintf(s.stderr, "smoke: session %s has ended: %s\n", printable(id), sessionState(one))
	return nil
}
