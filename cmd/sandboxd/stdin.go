package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// stdinBytes bounds what is forwarded: it travels in the request.
	stdinBytes = 4 << 20
	// stdinPatience is how long a silent stdin is waited for before we say what we wait for.
	stdinPatience = 2 * time.Second
)

// readStdin returns what the child gets on stdin: of the file that --stdin names ("-" is our own stdin, "none" is nothing), and without the
// flag our own stdin when it isn't a terminal.
func (p *program) readStdin(ctx context.Context, from string) ([]byte, error) {
	switch {
	case from == "none", from == "" && isTerminal(p.stdin):
		return nil, nil
	case from == "" || from == "-":
		return p.readOwnStdin(ctx, p.stdin)
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("--stdin: %w", err)
	}
	defer file.Close()
	return readAtMost("--stdin "+from, file, stdinBytes)
}

// readOwnStdin waits for the end of stdin, which may never come: after a while it says so, and an interrupt ends the wait.
func (p *program) readOwnStdin(ctx context.Context, stdin io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := readAtMost("stdin", stdin, stdinBytes)
		done <- result{data, err}
	}()
	patience := time.NewTimer(stdinPatience)
	defer patience.Stop()
	for {
		select {
		case r := <-done:
			return r.data, r.err
		case <-patience.C:
			fmt.Fprintln(p.stderr, "sandboxd: waiting for the end of stdin; --stdin none runs without it")
		case <-ctx.Done():
			return nil, fmt.Errorf("stdin: interrupted before its end")
		}
	}
}
