package main

import (
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/enforcer"
)

// checkReply is what profile check prints with --json.
type checkReply struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	enforcer.ProfileComparison
}

// profileCheck says what a profile allows beyond RuntimeDefault. It fails where that is dangerous, or where nothing could start under it.
func (p *program) profileCheck(flags *flagSet, args []string) (int, error) {
	var asJSON bool
	flags.BoolVar(&asJSON, "json", false, "print it as JSON")
	files, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if len(files) != 1 {
		return 0, errors.New("profile check: want one FILE, a profile in the OCI form or moby's")
	}
	data, err := readFile("profile check", files[0])
	if err != nil {
		return 0, err
	}
	kernel, err := kernelRelease()
	if err != nil {
		return 0, err
	}
	compared, err := enforcer.CompareProfile(data, kernel)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", files[0], err)
	}
	reply := checkReply{File: files[0], OK: len(compared.Dangerous()) == 0 && compared.Unusable == "", ProfileComparison: compared}
	status := 0
	if !reply.OK {
		status = 1
	}
	if asJSON {
		return status, printJSON(p.stdout, reply)
	}
	p.showCheck(reply)
	return status, nil
}

func (p *program) showCheck(r checkReply) {
	s := p.style(p.stdout)
	fmt.Fprintf(p.stdout, "%s allows %d calls; %d that RuntimeDefault allows it doesn't, %d it allows beyond that\n", r.File, r.Allows, r.Tighter, len(r.Wider))
	why := map[string]string{}
	var order []string
	for _, w := range r.Wider {
		mark := s.bold("wider")
		if w.Dangerous {
			mark = s.bad("dangerous")
		}
		line := fmt.Sprintf("  %-9s %s", mark, w.Call)
		if w.Args != nil {
			line += fmt.Sprintf(" with some arguments, such as %v", trimmed(*w.Args))
		}
		if w.Dangerous {
			line += "; sandboxd refuses it all the same"
		}
		if w.Group != "" {
			line += " (" + w.Group + ")"
			if why[w.Group] == "" {
				why[w.Group], order = w.Why, append(order, w.Group)
			}
		}
		fmt.Fprintln(p.stdout, line)
	}
	for _, group := range order {
		fmt.Fprintf(p.stdout, "  %s: %s\n", s.bold(group), why[group])
	}
	switch {
	case r.Unusable != "":
		fmt.Fprintf(p.stdout, "%s: %s\n", s.bad("unusable"), r.Unusable)
	case !r.OK:
		fmt.Fprintf(p.stdout, "%s: take the dangerous calls out; no exec gets them, whatever the profile says\n", s.bad("refused"))
	default:
		fmt.Fprintf(p.stdout, "%s\n", s.good("fine"))
	}
}

// trimmed leaves out the zeros at the end.
func trimmed(args [6]uint64) []string {
	n := len(args)
	for n > 1 && args[n-1] == 0 {
		n--
	}
	var texts []string
	for _, value := range args[:n] {
		texts = append(texts, fmt.Sprintf("%#x", value))
	}
	return texts
}
