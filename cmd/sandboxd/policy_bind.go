package main

import (
	"archive/tar"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy/engine"
)

// policyBind gives a daemon that waits for its policy one.
func (p *program) policyBind(ctx context.Context, flags *flagSet, args []string) (int, error) {
	socket := flags.String("socket", defaultSocket(p.getenv), "`path` of the daemon's socket")
	dirs, err := flags.parseAround(args)
	switch {
	case err != nil:
		return 0, err
	case len(dirs) != 1:
		return 0, fmt.Errorf("%s: want one DIR, or - for a tar archive on standard input", flags.command.name)
	}
	bundle, err := readBindable(p.stdin, dirs[0])
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flags.command.name, err)
	}
	request := execd.BindRequest{Files: map[string]string{}, Revision: bundle.Revision}
	for name, content := range bundle.Files {
		request.Files[name] = string(content)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flags.command.name, err) // a file that isn't UTF-8
	}
	binding, err := newClient(*socket).Bind(ctx, body)
	if err != nil {
		return 1, fmt.Errorf("%s: %w", flags.command.name, err)
	}
	fmt.Fprintf(p.stdout, "bound for good: %s (audit record %d)\n", binding.Revision, binding.AuditSequence)
	return 0, nil
}

// readBindable reads a bundle from a directory, or from a tar archive where that is named -.
func readBindable(stdin io.Reader, dir string) (engine.Bundle, error) {
	if dir != "-" {
		files, err := engine.Files(dir)
		if err != nil {
			return engine.Bundle{}, err
		}
		return engine.ReadBundle(files)
	}
	files := map[string][]byte{}
	archive := tar.NewReader(io.LimitReader(stdin, specBytes))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return engine.NewBundle(files)
		}
		if err != nil {
			return engine.Bundle{}, fmt.Errorf("standard input: %w", err)
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeReg:
		default:
			return engine.Bundle{}, fmt.Errorf("standard input: %.100q is neither a file nor a directory", name)
		}
		if _, twice := files[name]; twice {
			return engine.Bundle{}, fmt.Errorf("standard input: %.100q is there twice", name)
		}
		if files[name], err = io.ReadAll(archive); err != nil {
			return engine.Bundle{}, fmt.Errorf("standard input: %.100q: %w", name, err)
		}
	}
}

// Bind gives the daemon its policy.
func (c *client) Bind(ctx context.Context, body []byte) (execd.Binding, error) {
	var binding execd.Binding
	answer, err := c.do(ctx, http.MethodPut, "/v1/policy", "application/json", body)
	if err != nil {
		return binding, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return binding, err
	}
	if answer.StatusCode != http.StatusOK {
		return binding, apiError(answer.Status, data)
	}
	return binding, json.Unmarshal(data, &binding, wire)
}
