package main

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"path/filepath"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/policy"
)

// runBody is the body of POST /v1/run.
type runBody struct {
	common
	Language string            `json:"language"`
	Code     string            `json:"code"`
	Inputs   jsontext.Value    `json:"inputs,omitzero"`
	Env      map[string]string `json:"env,omitzero"`
	Cwd      string            `json:"cwd,omitzero"`
	Outputs  *outputsBody      `json:"outputs,omitzero"`
}

// codeBytes bounds a program that a file holds.
const codeBytes = 1 << 20

func (p *program) runPython(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var (
		where  place
		what   spec
		answer = answer{value: true}
		inputs string
	)
	flags.StringVar(&inputs, "inputs", "", "the program's inputs, as `JSON`, @FILE, a path, or - for our stdin")
	what.register(flags)
	where.registerClient(flags)
	answer.register(flags)
	answer.outputs.register(flags)
	files, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if len(files) != 1 {
		return 0, errors.New("run: want one FILE (.py, .sh, .js), or - for Python on stdin; arguments go in by --inputs JSON")
	}
	if err := what.requireDaemonForSandbox(where.socket); err != nil {
		return 0, err
	}
	body := runBody{Cwd: what.cwd}
	if body.common, err = what.common(); err != nil {
		return 0, err
	}
	body.ExplainDenials = answer.denials
	if body.Outputs, err = answer.outputs.body(flags); err != nil {
		return 0, err
	}
	if body.Env, err = what.environment(); err != nil {
		return 0, err
	}
	if body.Code, err = p.readCode(ctx, files[0]); err != nil {
		return 0, err
	}
	body.Language = language(files[0])
	if inputs == "-" && files[0] == "-" {
		return 0, errors.New("run: FILE and --inputs can't both be our stdin")
	}
	long, err := p.openInputs(inputs)
	if err != nil {
		return 0, err
	}
	if long != nil {
		defer func() { _ = long.Close() }() // it was read
	} else if inputs != "" {
		if body.Inputs, err = jsonOrFile("--inputs", inputs); err != nil {
			return 0, err
		}
		// What can't be a part of a JSON body; all else is the parser's to judge.
		copied := body.Inputs.Clone()
		if err := copied.Compact(wire); err != nil {
			return 0, fmt.Errorf("--inputs: %w", err)
		}
	}
	return p.walk(ctx, &where, flags, policy.ActionRun, body, long, &answer)
}

// language is what a file's name says that it is; Python where it says nothing.
func language(path string) string {
	switch filepath.Ext(path) {
	case ".sh", ".bash":
		return policy.LanguageBash
	case ".js", ".cjs":
		return policy.LanguageNode
	}
	return policy.LanguagePython
}

func (p *program) readCode(ctx context.Context, path string) (string, error) {
	var code []byte
	var err error
	if path == "-" {
		code, err = p.readOwnStdin(ctx, p.stdin)
	} else {
		code, err = readFile("run", path)
	}
	switch {
	case err != nil:
		return "", err
	case len(code) > codeBytes:
		return "", fmt.Errorf("run: %s has more than %d bytes", path, codeBytes)
	case !utf8.Valid(code):
		return "", fmt.Errorf("run: %s isn't UTF-8", path)
	}
	return string(code), nil
}
