// Command probe tries what a confined program must not be able to do, and says what the kernel answered.
//
//	probe mount            {"act":"mount","refused":true,"errno":"EPERM","number":1}
//	probe connect 1.1.1.1:53
//	probe i386             {"act":"i386","refused":true,"signal":"SIGSYS"}
//
// Each forbidden act is tried for real: with arguments that would succeed for a program that may. One act prints one JSON line and ends
// with status 0 whatever the answer was; status 2 means that the act couldn't be tried (unknown name, missing argument).
// "probe each ACT ARGS -- ACT ARGS" tries one after the other, a line each.
// The acts that live on (fork-tree, setsid-runaway, spin, …) are for the tests of time-outs, output and tree kill.
//
// It is static and needs nothing of the file system, so that it runs in any root.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// act is one thing to try. try returns nil when the kernel let it happen, an errno when it refused, a [killed] when the attempt cost a
// process its life, and any other error when it couldn't be tried.
type act struct {
	name  string
	args  string
	about string
	try   func(args []string) error
}

// killed is the signal that ended the process which made the attempt.
type killed syscall.Signal

func (k killed) Error() string { return unix.SignalName(syscall.Signal(k)) }

// line is what is printed for one act.
type line struct {
	Act     string   `json:"act"`
	Args    []string `json:"args,omitempty"`
	Refused bool     `json:"refused"`
	Errno   string   `json:"errno,omitempty"`
	Number  int      `json:"number,omitempty"`
	Signal  string   `json:"signal,omitempty"`
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	if os.Args[1] != "each" {
		perform(os.Args[1:])
		return
	}
	if len(os.Args) == 2 {
		usage()
	}
	for rest := os.Args[2:]; len(rest) > 0; {
		one := rest
		if at := slices.Index(rest, "--"); at >= 0 {
			one, rest = rest[:at], rest[at+1:]
		} else {
			rest = nil
		}
		perform(one)
	}
}

// groups are all acts.
var groups = [][]act{fileActs, processActs, programActs, kernelActs, networkActs, entryActs, livingActs, outputActs}

// perform tries one act and prints its line.
func perform(words []string) {
	if len(words) == 0 {
		usage()
	}
	name, args := words[0], words[1:]
	for _, group := range groups {
		if i := slices.IndexFunc(group, func(a act) bool { return a.name == name }); i >= 0 {
			report(name, args, group[i].try(args))
			return
		}
	}
	fmt.Fprintf(os.Stderr, "probe: unknown act %q; run probe without arguments for the list\n", name)
	os.Exit(2)
}

func report(name string, args []string, err error) {
	answer := line{Act: name, Args: args, Refused: err != nil}
	var errno syscall.Errno
	var signal killed
	switch {
	case err == nil:
	case errors.As(err, &errno):
		answer.Errno, answer.Number = unix.ErrnoName(errno), int(errno)
	case errors.As(err, &signal):
		answer.Signal = signal.Error()
	default:
		fmt.Fprintf(os.Stderr, "probe: %s: %v\n", name, err)
		os.Exit(2)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers only
	}
	fmt.Println(string(text))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: probe ACT [ARGS]\n       probe each ACT [ARGS] -- ACT [ARGS] …")
	for _, group := range groups {
		fmt.Fprintln(os.Stderr)
		for _, a := range group {
			fmt.Fprintf(os.Stderr, "  %-38s %s\n", strings.TrimSpace(a.name+" "+a.args), a.about)
		}
	}
	os.Exit(2)
}

// argument returns args[i], or fallback when it isn't given.
func argument(args []string, i int, fallback string) string {
	if i < len(args) {
		return args[i]
	}
	return fallback
}
