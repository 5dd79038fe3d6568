package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// auditCommands are the words after audit.
func auditCommands() []command {
	return []command{
		{"audit verify", "[flags] [DIR]", "follow the chain, hold it against its signed checkpoints; name what is bad", auditVerifies, false, (*program).auditVerify},
		{"audit show", "[flags] [DIR]", "print records", auditShows, false, (*program).auditShow},
		{"audit tail", "[flags] [DIR]", "print the last records, and those that come", auditShows, false, (*program).auditTail},
	}
}

const (
	auditWords = `
verify  follow the chain, hold it against its signed checkpoints; name what is bad
show    print records: by number, time, exec, sandbox, decision, type
tail    print the last records, and those that come (--follow)

All work on files, without a daemon. DIR is a log's directory; without it, it is
audit in the state directory. show and tail also ask a daemon (--socket), which
shows its own user and root everything, and others what names them as caller.
sandboxd help audit verify, and so on, has the flags.
`
	auditVerifies = `
It names the first bad record, and the unanchored tail: the records behind the
last checkpoint, which a chain alone vouches for. "sealed" is a log whose daemon
stopped on purpose and signed everything. The key is DIR/checkpoint.pub unless
given; who can write in DIR can put another there, so note the key elsewhere, as
sandboxd status has it. That a tail was cut off at a checkpoint only --checkpoint
can tell: a record of type checkpoint, or its note, that was kept elsewhere.
Exit status: 0 when all holds, 1 when something is bad, or isn't sealed where
--sealed asks for it; 2 when the log can't be read.
`
	auditShows = `
A line is number, time, type, and what the record is about; --json prints the
records as they are in the log. That they are what was written, audit verify says.
`
)

// auditCommand picks the word.
func (p *program) auditCommand(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var words []string
	for _, c := range auditCommands() {
		word := strings.TrimPrefix(c.name, "audit ")
		if len(args) > 0 && args[0] == word {
			return c.run(p, ctx, newFlagSet(c), args[1:])
		}
		words = append(words, word)
	}
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if flags.NArg() == 0 {
		return 0, fmt.Errorf("audit: want one of %s", strings.Join(words, ", "))
	}
	return 0, fmt.Errorf("audit: unknown word %q%s", flags.Arg(0), hint(flags.Arg(0), words, "sandboxd help audit"))
}

// auditDirectory is the one argument, or where a service keeps its log.
func (p *program) auditDirectory(args []string, state string) (string, error) {
	switch len(args) {
	case 0:
		dir, err := (&place{state: state}).stateDir(p.getenv)
		return filepath.Join(dir, "audit"), err
	case 1:
		return args[0], nil
	}
	return "", errors.New("audit: want one DIR at most")
}

func (p *program) auditVerify(_ context.Context, flags *flagSet, args []string) (int, error) {
	var asJSON, sealed bool
	key := flags.String("key", "", "public `key` that checkpoints must be signed by, or the path of a file with it (DIR/checkpoint.pub unless given)")
	witness := flags.String("checkpoint", "", "`file` with a checkpoint of this log that was kept elsewhere: a record of that type, or its note")
	state := flags.String("state", "", "state `directory` whose log it is, where DIR isn't given")
	flags.BoolVar(&sealed, "sealed", false, "want a log whose daemon has stopped and signed everything")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON")
	rest, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	dir, err := p.auditDirectory(rest, *state)
	if err != nil {
		return 0, err
	}
	var against audit.Verification
	from := ""
	if against.Key, from, err = verifyKey(*key, dir); err != nil {
		return 0, err
	}
	if *witness != "" {
		if against.Witness, err = witnessNote(*witness); err != nil {
			return 0, err
		}
	}
	report, err := against.Verify(dir)
	if err != nil {
		return 0, err
	}
	status := 0
	if !report.OK() || sealed && !report.Sealed {
		status = 1
	}
	if asJSON {
		return status, printJSON(p.stdout, report)
	}
	p.showReport(report, against.Key, from)
	if report.OK() && sealed && !report.Sealed {
		fmt.Fprintln(p.stdout, "not sealed: no stop with a checkpoint behind it is at the end")
	}
	return status, nil
}

// verifyKey finds the public key, and says where it is from; nil: there is none beside the log.
func verifyKey(given, dir string) (key note.Verifier, from string, err error) {
	switch {
	case strings.Contains(given, "+"):
		key, err = audit.ParsePublicKey(given)
		return key, "--key", err
	case given == "":
		from = filepath.Join(dir, "checkpoint.pub")
	default:
		from = given
	}
	data, err := os.ReadFile(from)
	if err != nil {
		if given == "" && errors.Is(err, os.ErrNotExist) {
			return nil, "", nil
		}
		return nil, "", err
	}
	key, err = audit.ParsePublicKey(string(data))
	if err != nil {
		err = fmt.Errorf("%s: %w", from, err)
	}
	return key, from, err
}

// witnessNote reads a checkpoint's record, or its note alone.
func witnessNote(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		return string(data), nil
	}
	text, err := audit.NoteOf(data)
	if err != nil {
		return "", fmt.Errorf("--checkpoint %s: %w", path, err)
	}
	return text, nil
}

func (p *program) showReport(r audit.Report, key note.Verifier, from string) {
	s := p.style(p.stdout)
	if r.Bad != nil {
		at := fmt.Sprintf("record %d", r.Bad.Sequence)
		if r.Bad.File != "" {
			at += " in " + r.Bad.File
		}
		fmt.Fprintf(p.stdout, "%s: %s: %s\n", s.bad("BAD"), at, r.Bad.Why)
		fmt.Fprintf(p.stdout, "%s before it hold\n", count(int(r.Records), "record", "records"))
	} else {
		fmt.Fprintf(p.stdout, "%s: %s in %s\n", s.good("holds"), count(int(r.Records), "record", "records"), count(r.Files, "file", "files"))
	}
	if r.Records > 0 {
		fmt.Fprintf(p.stdout, "last: %d, %s, %s\n", r.Last, r.LastTime.UTC().Format("2006-01-02T15:04:05Z"), r.LastHash)
	}
	switch {
	case key == nil:
		fmt.Fprintln(p.stdout, "unanchored: everything; there is no checkpoint.pub here, and no --key was given")
	case r.Anchored == 0:
		fmt.Fprintln(p.stdout, "unanchored: everything; no checkpoint is in it")
	case r.Unanchored > 0:
		fmt.Fprintf(p.stdout, "unanchored: %d to %d, since the checkpoint of %s\n", r.Anchored+1, r.Last, r.AnchoredTime.UTC().Format("2006-01-02T15:04:05Z"))
	case r.Sealed && r.Bad == nil:
		fmt.Fprintf(p.stdout, "%s: its daemon stopped, and the checkpoint of %s has everything\n", s.good("sealed"), r.AnchoredTime.UTC().Format("2006-01-02T15:04:05Z"))
	default:
		fmt.Fprintf(p.stdout, "anchored: the checkpoint of %s has everything\n", r.AnchoredTime.UTC().Format("2006-01-02T15:04:05Z"))
	}
	if key != nil {
		fmt.Fprintf(p.stdout, "key: %s, of %s\n", key.Name(), from)
	}
	if r.Witnessed {
		fmt.Fprintln(p.stdout, "witnessed: the log has what the checkpoint from elsewhere says")
	}
	if r.TornBytes > 0 {
		fmt.Fprintf(p.stdout, "torn: %d bytes behind the last record, of a write that is going on or was cut short\n", r.TornBytes)
	}
}
