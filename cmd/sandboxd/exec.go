package main

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/policy"
)

// execBody is the body of POST /v1/exec.
type execBody struct {
	common
	Command      commandBody `json:"command"`
	ResultMarker bool        `json:"resultMarker,omitzero"`
}

type commandBody struct {
	Argv        []string          `json:"argv,omitzero"`
	Env         map[string]string `json:"env,omitzero"`
	Cwd         string            `json:"cwd,omitzero"`
	Stdin       string            `json:"stdin,omitzero"`
	StdinBase64 []byte            `json:"stdinBase64,omitzero"`
}

func (p *program) exec(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var (
		where  place
		what   spec
		answer answer
		body   execBody
		stdin  string
	)
	what.register(flags)
	where.registerClient(flags)
	answer.register(flags)
	flags.StringVar(&stdin, "stdin", "", "what the command reads: a `file`, - for our own stdin, or none (our own unless it is a terminal)")
	flags.BoolVar(&body.ResultMarker, "result-marker", false, "take the value of the last result marker line out of stdout")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if flags.NArg() == 0 && what.image == "" {
		return 0, errors.New("exec: no command; write sandboxd exec -- COMMAND [ARGS]")
	}
	if err := what.requireDaemonForSandbox(where.socket); err != nil {
		return 0, err
	}
	var err error
	if body.common, err = what.common(); err != nil {
		return 0, err
	}
	if body.Command, err = what.command(flags.Args()); err != nil {
		return 0, err
	}
	body.ExplainDenials = answer.denials
	input, err := p.readStdin(ctx, stdin)
	if err != nil {
		return 0, err
	}
	if utf8.Valid(input) {
		body.Command.Stdin = string(input)
	} else {
		body.Command.StdinBase64 = input
	}
	return p.walk(ctx, &where, flags, policy.ActionExec, body, nil, &answer)
}

// command checks here what JSON can't carry to the parser.
func (s *spec) command(argv []string) (commandBody, error) {
	for i, argument := range argv {
		if !utf8.ValidString(argument) {
			return commandBody{}, fmt.Errorf("argument %d of the command isn't UTF-8; hand such bytes over by --stdin", i)
		}
	}
	if len(argv) == 0 {
		argv = nil // the image's own
	}
	env, err := s.environment()
	return commandBody{Argv: argv, Env: env, Cwd: s.cwd}, err
}

func (s *spec) requireDaemonForSandbox(socket string) error {
	if s.sandbox != "" && socket == "" {
		return errors.New("--sandbox names one that a daemon keeps: give --socket too")
	}
	return nil
}

// walk sends one request to its end and shows what came of it.
func (p *program) walk(ctx context.Context, where *place, flags *flagSet, action policy.Action, body any, inputs *longInputs, a *answer) (status int, err error) {
	data, err := encode(body)
	if err != nil {
		return 0, err
	}
	service, err := where.open(ctx, p, flags)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reply, err := service.Exec(ctx, action, requestBody{data, inputs}, a.sink(p, cancel), a.explain)
	if err != nil {
		return 0, err
	}
	saved := a.outputs.save(p, &reply)
	defer reply.Close()
	if err := a.show(p, reply); err != nil {
		return 0, err
	}
	if saved != nil {
		return 0, saved
	}
	return reply.ExitStatus(), nil
}

// wire leaves inputs and returned values as they came: they are Python's, and may have what this language's encoder would refuse or change.
var wire = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

func encode(body any) ([]byte, error) { return json.Marshal(body, wire) }
