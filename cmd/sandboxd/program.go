package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// program is what the commands share: the three streams and the environment.
type program struct {
	stdin          *os.File
	stdout, stderr *os.File
	getenv         func(string) string
}

// command is one word after sandboxd.
type command struct {
	name  string
	args  string // the synopsis after the name
	about string
	// more follows the flags in the command's help.
	more string
	// passes says that the exit status belongs to what is run, so that our own errors need one that can't be confused: 125.
	passes bool
	run    func(p *program, ctx context.Context, flags *flagSet, args []string) (status int, err error)
}

func commands() []command {
	return []command{
		{"exec", "[flags] -- COMMAND [ARGS]", "run one command in a fresh sandbox", statuses, true, (*program).exec},
		{"run", "[flags] FILE", "run Python, bash or Node with inputs, get a value back", returned + statuses, true, (*program).runPython},
		{"decide", "[flags] -- COMMAND [ARGS] | --request FILE", "ask policy without any effect", verdicts, false, (*program).decide},
		{"doctor", "[flags]", "what this host can enforce, and how to get what is missing", "", false, (*program).doctor},
		{"policy", "check | test | eval | explain [flags] [DIR]", "policy bundles on files: check, test, judge, explain", policies, false, (*program).policyCommand},
		{"profile", "check FILE | list | record --out FILE -- COMMAND | show NAME", "seccomp profiles: check, record, print", profiles, false, (*program).profile},
		{"image", "import --name NAME PATH | list | remove NAME", "images that sandboxes are made from: bring in, show, remove", imageWords, false, (*program).image},
		{"verify", "[flags]", "read everything back now, and try forbidden acts", verified, false, (*program).verify},
		{"audit", "verify | show | tail [flags] [DIR]", "the audit log on files: verify it, show records", auditWords, false, (*program).auditCommand},
		{"status", "[flags]", "ask a daemon how it is: tier, policy, proofs, log, what is missing", statusWords, false, (*program).status},
		{"serve", "[flags]", "the daemon: HTTP on a unix socket", "", false, (*program).serve},
		{"stop", "[flags]", "have a daemon drain and end, as SIGTERM does; returns when it is gone", "", false, (*program).stop},
		{"install", "[flags] DIR", "copy the launcher into a directory, for a runner's container", "", false, (*program).install},
		{"healthz", "[flags]", "ask a daemon whether it is alive, or ready", "", false, (*program).healthz},
		{"version", "", "print the version", "", false, (*program).version},
		{"help", "[COMMAND [WORD]]", "print this, or a command's flags", "", false, (*program).help},
	}
}

// What help says after the flags.
const (
	statuses = `
Exit status: the program's own; 128+n when it died by signal n. Else ours:
  124 timeout   137 oom   130 cancelled   126, 127 could not be started
  125 anything else: denied, mismatch, output_limit, infra, wrong usage
--json names the outcome, which a status alone can't.
`
	returned = `
The name of FILE says its language: .py, .sh or .js. The program finds its inputs
in the variable inputs, and gives a value back by setting _return; in bash both
are descriptors (docs/run.md). The value is printed as JSON after the output.
`
	profiles = `
check   what a profile allows beyond RuntimeDefault; status 1 where that is
        dangerous, or where nothing could start under it
list    the profiles that come with sandboxd, and what each is for
record  run a command once, confined, and write the profile of what it used;
        flags as those of exec, and --out FILE; the status is the command's
show    print a profile of sandboxd's in the OCI form
`
	imageWords = `
import  unpack an image, check its digests, and give it a name: from a saved tar
        (docker save), an OCI layout, or a plain root, as a directory or a tar
list    names, digests and sizes; --verify hashes all files again
remove  take a name away, and the image with its last one; status 1 and no
        change where sandboxes use it
`
	verified = `
Exit status: 0 when everything holds, 1 when something doesn't or couldn't be
read or tried. Embedded it looks at a fresh sandbox, through --socket at the
daemon, its sandboxes and all that runs in them.
`
	statusWords = `
Exit status: 0 when it is ready, 1 when it isn't or there is none. What keeps it
from being ready is the second line.
`
	verdicts = `
Exit status: 0 when the request would run, 1 when it would not.
`
)

// The statuses of our own errors.
const (
	statusUsage = 2   // commands whose status is their own
	statusOurs  = 125 // commands that pass the status of what they run (exec, run)
)

// errHelp asks for the flags of a command; it isn't an error.
var errHelp = flag.ErrHelp

func (p *program) run(args []string) int {
	if len(args) == 0 {
		p.overview(p.stderr)
		return statusUsage
	}
	name := args[0]
	if slices.Contains([]string{"-h", "-help", "--help"}, name) {
		name = "help"
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		p.complain(fmt.Errorf("unknown command %q%s", name, hint(name, commandNames(), "sandboxd help")))
		return statusUsage
	}
	return p.runCommand(all[i], args[1:])
}

// runCommand runs one command until it ends or the caller interrupts. A second interrupt ends the program at once, as without us.
func (p *program) runCommand(c command, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	status, err := c.run(p, ctx, newFlagSet(c), args)
	if err == nil {
		return status
	}
	if errors.Is(err, errHelp) {
		return 0
	}
	p.complain(err)
	switch {
	case c.passes:
		return statusOurs
	case status != 0:
		return status
	default:
		return statusUsage
	}
}

// complain prints an error as one line.
func (p *program) complain(err error) {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	fmt.Fprintf(p.stderr, "sandboxd: %s\n", text)
}

func (p *program) overview(w io.Writer) {
	fmt.Fprint(w, "sandboxd runs code that nobody trusts, confined, proven and recorded.\n\nusage: sandboxd COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.about)
	}
	fmt.Fprint(w, "\nsandboxd help COMMAND lists its flags.\n")
}

func (p *program) help(_ context.Context, flags *flagSet, args []string) (int, error) {
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	asked := strings.Join(flags.Args(), " ")
	if asked == "" {
		p.overview(p.stdout)
		return 0, nil
	}
	for _, c := range slices.Concat(commands(), policyCommands(), auditCommands()) {
		if c.name == asked {
			_, err := c.run(p, context.Background(), newFlagSet(c), []string{"-h"})
			return 0, err
		}
	}
	if flags.NArg() > 1 && !slices.Contains([]string{"policy", "audit"}, flags.Arg(0)) {
		return 0, errors.New("help takes one command")
	}
	return 0, fmt.Errorf("unknown command %q%s", asked, hint(asked, commandNames(), "sandboxd help"))
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}
