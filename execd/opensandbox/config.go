package opensandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

// Config is everything that the façade can be told.
type Config struct {
	// Dir is where the façade keeps what it has to know after a restart, in the daemon's state directory. Absolute.
	Dir string
	// Keys are the owners, from [ReadKeys]; none with Insecure, which takes whoever comes as one owner.
	Keys     []Key
	Insecure bool
	// DefaultTimeout is the life of a sandbox whose create says nothing of it.
	DefaultTimeout time.Duration
	// LongestCommand is how long a command may run that has no timeout of its own.
	LongestCommand time.Duration
	// MemoryBytes and CPU are the most that a sandbox may ask for, and what it gets when it doesn't ask.
	MemoryBytes int64
	CPU         float64
	// LogBytes is how much output of a background command is kept for who asks for its logs, CommandsKept how many ended commands of a sandbox have a status.
	LogBytes     int64
	CommandsKept int
	// SessionsKept is how many sessions a sandbox may have, of each kind.
	SessionsKept int
	// ContextsKept is how many code contexts a sandbox may have, CellsQueued how many cells may wait for a context's turn.
	ContextsKept int
	CellsQueued  int
	// FileBytes is the largest file that may be uploaded, and the most that a download gives at once; policy bounds it too.
	FileBytes int64
	// BodyBytes bounds a request's body but for uploads, BodyTimeout its arrival; WriteTimeout bounds an answer that isn't a stream.
	BodyBytes    int64
	BodyTimeout  time.Duration
	WriteTimeout time.Duration
	// StallTimeout is how long a client of a stream may take nothing, before it counts as gone.
	StallTimeout time.Duration

	Logger *slog.Logger
}

// DefaultConfig keeps its state in dir.
func DefaultConfig(dir string) Config {
	return Config{
		Dir: dir, DefaultTimeout: 10 * time.Minute, LongestCommand: time.Hour, MemoryBytes: 8 << 30, CPU: 64, LogBytes: 16 << 20, CommandsKept: 1024, SessionsKept: 256, ContextsKept: 16, CellsQueued: 16, FileBytes: 8 << 30,
		BodyBytes: 8 << 20, BodyTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, StallTimeout: 10 * time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// Validate names every field that can't be.
func (c Config) Validate() error {
	var wrong []error
	check := func(ok bool, field, want string, got any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("opensandbox: %s: %v: want %s", field, got, want))
		}
	}
	check(filepath.IsAbs(c.Dir), "Dir", "an absolute path", fmt.Sprintf("%q", c.Dir))
	check(c.Insecure != (len(c.Keys) > 0), "Keys", "at least one key, or none with Insecure", len(c.Keys))
	check(leastTimeout <= c.DefaultTimeout && c.DefaultTimeout <= 30*24*time.Hour, "DefaultTimeout", "1m..720h", c.DefaultTimeout)
	check(time.Second <= c.LongestCommand && c.LongestCommand <= 24*time.Hour, "LongestCommand", "1s..24h", c.LongestCommand)
	check(1<<20 <= c.MemoryBytes && c.MemoryBytes <= 1<<50, "MemoryBytes", "1 MiB..1 PiB", c.MemoryBytes)
	check(0.01 <= c.CPU && c.CPU <= 4096, "CPU", "0.01..4096", c.CPU)
	check(0 <= c.LogBytes && c.LogBytes <= 1<<40, "LogBytes", "0..1 TiB", c.LogBytes)
	check(1 <= c.CommandsKept && c.CommandsKept <= 1<<20, "CommandsKept", "1..1048576", c.CommandsKept)
	check(1 <= c.SessionsKept && c.SessionsKept <= 1<<16, "SessionsKept", "1..65536", c.SessionsKept)
	check(1 <= c.ContextsKept && c.ContextsKept <= 1<<10, "ContextsKept", "1..1024", c.ContextsKept)
	check(0 <= c.CellsQueued && c.CellsQueued <= 1<<10, "CellsQueued", "0..1024", c.CellsQueued)
	check(1 <= c.FileBytes && c.FileBytes <= 1<<34, "FileBytes", "1 B..16 GiB", c.FileBytes)
	check(1<<10 <= c.BodyBytes && c.BodyBytes <= 1<<30, "BodyBytes", "1 KiB..1 GiB", c.BodyBytes)
	check(c.BodyTimeout >= time.Millisecond, "BodyTimeout", "1ms or more", c.BodyTimeout)
	check(c.WriteTimeout >= time.Millisecond, "WriteTimeout", "1ms or more", c.WriteTimeout)
	check(c.StallTimeout >= time.Second, "StallTimeout", "1s or more", c.StallTimeout)
	check(c.Logger != nil, "Logger", "a logger", "nil")
	return errors.Join(wrong...)
}
