package main

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/policy"
)

// requestBody is the body of a request: JSON, and for a run maybe inputs that needn't be in memory.
type requestBody struct {
	json   []byte
	inputs *longInputs
}

// reader reads it: an object, with the inputs as its last member.
func (b requestBody) reader() io.Reader {
	if b.inputs == nil {
		return bytes.NewReader(b.json)
	}
	object := bytes.TrimSuffix(b.json, []byte("}"))
	return io.MultiReader(bytes.NewReader(object), strings.NewReader(`,"inputs":`), b.inputs, strings.NewReader("}"))
}

// fault is what is wrong with the inputs where that is why a request failed, else err.
func (b requestBody) fault(err error) error {
	if b.inputs != nil {
		if wrong := b.inputs.err.Load(); wrong != nil {
			return *wrong
		}
	}
	return err
}

// longInputs are a file's, judged as they are read: what isn't one value of JSON must not become a part of the body, where it could have members of its own
// beside the inputs.
type longInputs struct {
	file    *os.File
	scanner policy.JSONScanner
	// err is what was wrong: an HTTP client may still be reading when it has the answer.
	err atomic.Pointer[error]
}

// openInputs opens the inputs that a flag names, if they are our stdin or a file that is too long to be read into a body; else it is nil.
func (p *program) openInputs(value string) (*longInputs, error) {
	path, named := strings.CutPrefix(value, "@")
	trimmed := strings.TrimSpace(value)
	switch {
	case trimmed == "":
		return nil, nil
	case value == "-":
		return &longInputs{file: p.stdin, scanner: policy.JSONScanner{Field: "--inputs"}}, nil
	case !named && (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") || jsontext.Value(trimmed).IsValid()):
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--inputs: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("--inputs: %w", err), file.Close())
	case info.IsDir():
		return nil, errors.Join(fmt.Errorf("--inputs: %s is a directory", path), file.Close())
	case info.Mode().IsRegular() && info.Size() <= specBytes:
		return nil, file.Close()
	}
	return &longInputs{file: file, scanner: policy.JSONScanner{Field: "--inputs " + path}}, nil
}

func (l *longInputs) Read(p []byte) (int, error) {
	if wrong := l.err.Load(); wrong != nil {
		return 0, *wrong
	}
	n, err := l.file.Read(p)
	took, wrong := l.scanner.Scan(p[:n])
	switch {
	case wrong != nil:
	case len(bytes.Trim(p[took:n], " \t\r\n")) > 0:
		wrong = fmt.Errorf("%s: more than one JSON value", l.scanner.Field)
	case errors.Is(err, io.EOF):
		wrong = l.scanner.End()
	case err != nil:
		wrong = fmt.Errorf("%s: %w", l.scanner.Field, err)
	}
	if wrong != nil {
		l.err.Store(&wrong)
		return 0, wrong
	}
	return n, err
}

// Close is the file's.
func (l *longInputs) Close() error { return l.file.Close() }
