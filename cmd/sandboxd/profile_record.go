package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd"
)

// profileRecord runs a command once and writes the profile of what it used. It is confined as any other exec: what its filter refuses is refused; what
// it allows stops for a moment, is taken down and goes on.
func (p *program) profileRecord(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var (
		where      place
		what       spec
		out, stdin string
	)
	flags.StringVar(&out, "out", "", "`file` to write the profile to")
	flags.StringVar(&stdin, "stdin", "", "what the command reads: a `file`, - for our own stdin, or none (our own unless it is a terminal)")
	what.register(flags)
	where.registerEmbedded(flags)
	if err := flags.parse(args); err != nil {
		return statusOurs, err
	}
	switch {
	case out == "":
		return statusOurs, errors.New("profile record: no file to write to; give --out FILE")
	case flags.NArg() == 0:
		return statusOurs, errors.New("profile record: no command; write sandboxd profile record --out FILE -- COMMAND [ARGS]")
	case what.sandbox != "":
		return statusOurs, errors.New("profile record: it has a sandbox of its own; leave --sandbox out")
	}
	body := execBody{}
	var err error
	if body.common, err = what.common(); err != nil {
		return statusOurs, err
	}
	if body.Command, err = what.command(flags.Args()); err != nil {
		return statusOurs, err
	}
	if body.Command.StdinBase64, err = p.readStdin(ctx, stdin); err != nil {
		return statusOurs, err
	}
	data, err := encode(body)
	if err != nil {
		return statusOurs, err
	}
	return p.record(ctx, &where, flags, data, out)
}

func (p *program) record(ctx context.Context, where *place, flags *flagSet, body []byte, out string) (status int, err error) {
	request, _, err := execd.ParseExec(body)
	if err != nil {
		return statusOurs, err
	}
	opened, err := where.open(ctx, p, flags)
	if err != nil {
		return statusOurs, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var observed *execd.Observed
	request.Caller = execd.Self()
	show := answer{}
	reply := opened.(*embedded).service.Exec(ctx, request, execd.Options{
		Sink: show.sink(p, cancel), Observe: func(o execd.Observed) { observed = &o },
	})
	if err := show.show(p, reply); err != nil {
		return statusOurs, err
	}
	if observed == nil || !ran(reply.Outcome) {
		return reply.ExitStatus(), nil // why it didn't run is said
	}
	kernel, err := kernelRelease()
	if err != nil {
		return statusOurs, err
	}
	text, err := enforcer.Profiles{Dir: where.config.ProfileDir}.Recorded(observed.Profile, observed.Calls, kernel)
	if err != nil {
		return statusOurs, fmt.Errorf("profile record: %w", err)
	}
	if err := replaceFile(out, text); err != nil {
		return statusOurs, fmt.Errorf("--out: %w", err)
	}
	p.complain(fmt.Errorf("%s has the %d calls of this run; other input may take other ways: run the program's tests under it before you rely on it", out, len(observed.Calls)))
	return reply.ExitStatus(), nil
}

// replaceFile leaves either the old file or the whole new one.
func replaceFile(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone by then if all went well
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
