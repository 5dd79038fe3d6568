package agentsandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"
)

// Config is everything that the façade can be told.
type Config struct {
	Access Access
	// Base is the directory that paths of clients are relative to, and in which commands begin. Absolute.
	Base string
	// LongestCommand is how long a command may run that has no timeout, and how long one whose client of gRPC would wait for it longer. Policy bounds it too.
	LongestCommand time.Duration
	// OutputBytes is how much of each stream an answer has that isn't a stream itself; a client of gRPC takes 4 MiB in one message.
	OutputBytes int64
	// FileBytes is the largest file that may be uploaded, and the most that a download gives; policy bounds it too.
	FileBytes int64
	// BodyBytes bounds a request's body but for files, BodyTimeout its arrival; WriteTimeout bounds an answer that isn't a stream.
	BodyBytes    int64
	BodyTimeout  time.Duration
	WriteTimeout time.Duration
	// StallTimeout is how long a client may take nothing of a stream or a file, before it counts as gone.
	StallTimeout time.Duration
	// Requests is how many may be here at once.
	Requests int

	Logger *slog.Logger
}

// DefaultConfig lets nobody in: Access is to be said.
func DefaultConfig() Config {
	return Config{
		Base: "/work", LongestCommand: time.Hour, OutputBytes: 1 << 20, FileBytes: 8 << 30,
		BodyBytes: 4 << 20, BodyTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, StallTimeout: time.Minute, Requests: 256,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// Validate names every field that can't be.
func (c Config) Validate() error {
	wrong := []error{c.Access.validate()}
	check := func(ok bool, field, want string, got any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("agent-sandbox: %s: %v: want %s", field, got, want))
		}
	}
	check(path.IsAbs(c.Base) && path.Clean(c.Base) == c.Base && c.Base != "/", "Base", "the absolute path of a directory, not the root", fmt.Sprintf("%q", c.Base))
	check(time.Second <= c.LongestCommand && c.LongestCommand <= 24*time.Hour, "LongestCommand", "1s..24h", c.LongestCommand)
	check(1<<10 <= c.OutputBytes && c.OutputBytes <= mostMessage/2-1<<10, "OutputBytes", "1 KiB..just below 2 MiB, since both streams go into one message", c.OutputBytes)
	check(1 <= c.FileBytes && c.FileBytes <= 1<<34, "FileBytes", "1 B..16 GiB", c.FileBytes)
	check(1<<10 <= c.BodyBytes && c.BodyBytes <= 1<<30, "BodyBytes", "1 KiB..1 GiB", c.BodyBytes)
	for field, bound := range map[string]time.Duration{"BodyTimeout": c.BodyTimeout, "WriteTimeout": c.WriteTimeout, "StallTimeout": c.StallTimeout} {
		check(bound >= time.Millisecond, field, "1ms or more", bound)
	}
	check(1 <= c.Requests && c.Requests <= 1<<16, "Requests", "1..65536", c.Requests)
	check(c.Logger != nil, "Logger", "a logger", "nil")
	return errors.Join(wrong...)
}
