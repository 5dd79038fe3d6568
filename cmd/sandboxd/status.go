package main

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// status exits with 0 when the daemon can do its job, with 1 when it can't or isn't there.
func (p *program) status(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var asJSON bool
	socket := flags.String("socket", defaultSocket(p.getenv), "`path` of the daemon's socket")
	flags.BoolVar(&asJSON, "json", false, "print the whole account as JSON")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	answer, err := newClient(*socket).do(ctx, http.MethodGet, "/v1/status", "application/json", nil)
	if err != nil {
		return 1, err
	}
	defer answer.Body.Close()
	var reply execd.Status
	if err := readAnswer(answer, &reply); err != nil {
		return 1, err
	}
	code := 0
	if !reply.Ready {
		code = 1
	}
	if asJSON {
		return code, printJSON(p.stdout, reply)
	}
	p.showStatus(reply)
	return code, nil
}

// readAnswer reads a 200's body, or gives the error of another answer.
func readAnswer(answer *http.Response, to any) error {
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return apiError(answer.Status, data)
	}
	return json.Unmarshal(data, to, wire)
}

func (p *program) showStatus(r execd.Status) {
	s := p.style(p.stdout)
	row := func(name, format string, values ...any) {
		fmt.Fprintf(p.stdout, "%s %s\n", s.quiet(fmt.Sprintf("%-10s", name)), fmt.Sprintf(format, values...))
	}
	state := s.good("ready")
	if !r.Ready {
		state = s.bad("NOT READY")
	}
	row("sandboxd", "%s: %s, up %s", r.Version, state, age(time.Duration(r.UptimeSeconds*float64(time.Second))))
	for _, trouble := range r.Troubles {
		row("", "%s", s.bad(trouble))
	}
	row("tier", "%s, %s, Linux %s %s, uid %d", s.bold(string(r.Host.Tier)), r.Host.Place, r.Host.Kernel, r.Host.Arch, r.Host.UID)
	if l := r.Launcher; l != nil {
		if l.Connected {
			row("launcher", "%s as uid %d, sandbox %s", s.good("connected"), l.UID, short(l.Sandbox))
		} else {
			row("launcher", "%s; it is waited for at %s, as uid %d", s.bad("not connected"), l.Socket, l.UID)
		}
	}
	policyState := "in force since " + stamp(r.Policy.LoadedAt)
	if r.Policy.Stale {
		policyState = s.bad("STALE") + ": the last good one is in force, since " + stamp(r.Policy.LoadedAt) + ": " + cell(r.Policy.Error)
	}
	row("policy", "%s, %s", r.Policy.Revision, policyState)
	for _, warning := range r.Policy.Warnings {
		row("", "%s", warning)
	}
	p.showProofs(s, row, r.Proofs)
	row("requests", "%d running, %d waiting", r.Requests.Running, r.Requests.Waiting)
	row("sandboxes", "%d ready, %d kept, %d drifted, %d quarantined", r.Sandboxes.Ready, r.Sandboxes.Kept, r.Sandboxes.Drifted, r.Sandboxes.Quarantined)
	p.showAudit(s, row, r.Audit)
	p.showMechanisms(s, r)
}

type rowPrinter func(name, format string, values ...any)

func (p *program) showProofs(s style, row rowPrinter, r execd.ProofsStatus) {
	switch {
	case r.Plans == 0:
		row("proofs", "no plan is in use yet")
	case r.Failed > 0:
		row("proofs", "%s: %d of %d plans in use don't hold", s.bad("FAILED"), r.Failed, r.Plans)
	case r.Held == 0:
		row("proofs", "none yet of %s in use; they are tried soon, or now by sandboxd verify", count(r.Plans, "plan", "plans"))
	default:
		row("proofs", "%d of %s in use proven by forbidden acts, the oldest %s ago", r.Held, count(r.Plans, "plan", "plans"), age(time.Since(r.OldestAt)))
	}
}

func (p *program) showAudit(s style, row rowPrinter, a execd.AuditStatus) {
	anchor := "no checkpoint yet"
	if a.Anchored > 0 {
		anchor = fmt.Sprintf("checkpoint at %d, %s ago", a.Anchored, age(time.Since(a.AnchoredAt)))
	}
	copied := ""
	if a.Copied {
		copied = ", copied to standard output"
	}
	row("audit", "record %d, %s, in %s%s", a.Sequence, anchor, a.Directory, copied)
	row("", "key %s", a.PublicKey)
	if a.Error != "" {
		row("", "%s", s.bad("BROKEN: "+a.Error))
	}
}

// showMechanisms names what is there in short, and what is missing with what to do.
func (p *program) showMechanisms(s style, r execd.Status) {
	have := 0
	rows := [][]string{{"missing", "detail", "how to get it"}}
	for _, m := range r.Host.Mechanisms {
		if m.Have {
			have++
			continue
		}
		rows = append(rows, []string{s.bad(m.Name), m.Detail, m.HowToGet})
	}
	fmt.Fprintf(p.stdout, "%s %d of %d\n", s.quiet(fmt.Sprintf("%-10s", "mechanisms")), have, len(r.Host.Mechanisms))
	if len(rows) > 1 {
		fmt.Fprintln(p.stdout)
		printTable(p.stdout, s, rows)
	}
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

// age is a time in one or two units.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
