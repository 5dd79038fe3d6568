package main

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// doctorReply is what doctor prints with --json.
type doctorReply struct {
	Tier       policy.Tier          `json:"tier"`
	Kernel     string               `json:"kernel"`
	Arch       string               `json:"arch"`
	UID        int                  `json:"uid"`
	Mechanisms []enforcer.Mechanism `json:"mechanisms"`
	Policy     *policyHealth        `json:"policy,omitzero"`
}

// policyHealth is about the directory of a policy: why it would be refused, and why changes of it wouldn't be seen.
type policyHealth struct {
	Directory string   `json:"directory"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings"`
}

func inspectPolicy(dir string) *policyHealth {
	if dir == "" {
		return nil
	}
	warnings, err := execd.InspectPolicy(dir)
	health := &policyHealth{Directory: dir, Warnings: append([]string{}, warnings...)}
	if err != nil {
		health.Error = err.Error()
	}
	return health
}

// doctor asks the kernel by trying, as a service does at its start. It changes nothing.
func (p *program) doctor(_ context.Context, flags *flagSet, args []string) (int, error) {
	var show list
	var asJSON bool
	flags.Var(&show, "show", "host `path` that sandboxes should see; again for more")
	dir := flags.String("policy", "", "`directory` of a policy: may others write it, and will changes be seen?")
	attached := flags.Bool("attached", false, "what a daemon beside a container would have, whose launcher connects to it (serve --runner-socket)")
	flags.BoolVar(&asJSON, "json", false, "print it as JSON")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	host, err := enforcer.ProbeHost(enforcer.HostConfig{Show: show, Attached: *attached})
	if err != nil {
		return 1, err
	}
	reply := doctorReply{host.Tier(), host.Kernel, host.Arch, host.UID, host.Doctor(), inspectPolicy(*dir)}
	status := 0
	if reply.Policy != nil && reply.Policy.Error != "" {
		status = 1
	}
	if asJSON {
		return status, printJSON(p.stdout, reply)
	}
	p.showDoctor(reply)
	return status, nil
}

func (p *program) showDoctor(reply doctorReply) {
	s := p.style(p.stdout)
	fmt.Fprintf(p.stdout, "tier %s  Linux %s %s, uid %d\n\n", s.bold(string(reply.Tier)), reply.Kernel, reply.Arch, reply.UID)
	rows := [][]string{{"mechanism", "have", "detail"}}
	var missing []enforcer.Mechanism
	for _, m := range reply.Mechanisms {
		have := s.good("yes")
		if !m.Have {
			have = s.bad("no")
			missing = append(missing, m)
		}
		rows = append(rows, []string{m.Name, have, m.Detail})
	}
	printTable(p.stdout, s, rows)
	if health := reply.Policy; health != nil {
		fmt.Fprintf(p.stdout, "\npolicy %s\n", health.Directory)
		if health.Error != "" {
			fmt.Fprintf(p.stdout, "  %s: %s\n", s.bad("refused"), health.Error)
		}
		for _, warning := range health.Warnings {
			fmt.Fprintf(p.stdout, "  %s: %s\n", s.bold("warning"), warning)
		}
	}
	if len(missing) == 0 {
		return
	}
	fmt.Fprint(p.stdout, "\nto get what is missing:\n")
	for _, m := range missing {
		if m.HowToGet != "" {
			fmt.Fprintf(p.stdout, "  %s: %s\n", s.bold(m.Name), m.HowToGet)
		}
	}
}
