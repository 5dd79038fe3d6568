package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// profileWords are the commands of profile.
var profileWords = []string{"check", "list", "record", "show"}

// profile is about seccomp profiles: what a run used, what a file allows, what comes with sandboxd.
func (p *program) profile(ctx context.Context, flags *flagSet, args []string) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("profile: want one of check FILE, list, record --out FILE -- COMMAND, show NAME")
	}
	word, rest := args[0], args[1:]
	switch word {
	case "record":
		return p.profileRecord(ctx, flags, rest)
	case "check":
		return p.profileCheck(flags, rest)
	case "list":
		return p.profileList(flags, rest)
	case "show":
		return p.profileShow(flags, rest)
	}
	if err := flags.parse(args); err != nil { // -h, or a flag before the word
		return 0, err
	}
	return 0, fmt.Errorf("profile: unknown word %q%s", word, hint(word, profileWords, "sandboxd help profile"))
}

func (p *program) profileList(flags *flagSet, args []string) (int, error) {
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	s := p.style(p.stdout)
	for _, b := range enforcer.BuiltinProfiles() {
		fmt.Fprintf(p.stdout, "%s\n   %s\n", s.bold(policy.BuiltinProfiles+b.Name), b.Reason)
		for _, edit := range b.Edits {
			verb := "refuses"
			if edit.Relaxes() {
				verb = "allows"
			}
			fmt.Fprintf(p.stdout, "   %s: %s\n", verb, edit.Reason)
		}
	}
	return 0, nil
}

func (p *program) profileShow(flags *flagSet, args []string) (int, error) {
	names, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if len(names) != 1 {
		return 0, errors.New("profile show: want one NAME; sandboxd profile list has them")
	}
	kernel, err := kernelRelease()
	if err != nil {
		return 0, err
	}
	text, err := enforcer.ShowProfile(names[0], kernel)
	if err != nil {
		return 0, err
	}
	_, err = p.stdout.Write(text)
	return 0, err
}

// kernelRelease is what minKernel in profiles is held against.
func kernelRelease() (string, error) {
	var name unix.Utsname
	err := unix.Uname(&name)
	return unix.ByteSliceToString(name.Release[:]), err
}
