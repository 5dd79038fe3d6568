package workloads

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"time"
)

// Config is everything that the façade can be told.
type Config struct {
	// Dir is where workloads are kept, in the daemon's state directory. Absolute.
	Dir string
	// Images are the names that imageUri may have, or patterns of them ([path.Match]: a * goes up to the next slash). All of them are what a sandbox
	// shows of this machine; at least one.
	Images []string
	// MemoryBytes and CPU are the most that a workload may ask for, and what it gets when it doesn't ask.
	MemoryBytes int64
	CPU         float64
	// OutputBytes is how much of stdout and of stderr is kept; InputBytes bounds the inputs.
	OutputBytes int64
	InputBytes  int64
	// LongestTimeout is what a timeout that isn't one, zero or less, means.
	LongestTimeout time.Duration
	// Retention is for how long an ended workload is kept that nobody deletes.
	Retention time.Duration

	// MaxWorkloads may exist at once. The code and inputs of those that haven't begun or run have at most WaitingBytes together, the logs of those that have
	// ended LogBytes; a workload beyond one of the three is answered 429.
	MaxWorkloads int
	WaitingBytes int64
	LogBytes     int64
	// BodyBytes bounds a request's body, RestBytes what it has beside its long texts, and its code; Uploads how many of them arrive at once, BodyTimeout how long one may take; WriteTimeout bounds each write of an
	// answer.
	BodyBytes    int64
	RestBytes    int64
	Uploads      int
	BodyTimeout  time.Duration
	WriteTimeout time.Duration

	Logger *slog.Logger
}

// DefaultConfig keeps workloads in dir.
func DefaultConfig(dir string) Config {
	return Config{
		Dir: dir, MemoryBytes: 2 << 30, CPU: 4, OutputBytes: 8 << 20, InputBytes: 256 << 20, LongestTimeout: time.Hour, Retention: 30 * time.Minute,
		MaxWorkloads: 1024, WaitingBytes: 256 << 20, LogBytes: 2 << 30,
		BodyBytes: 384 << 20, RestBytes: 8 << 20, Uploads: 8, BodyTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// leastBody is what the contract wants of a body at least.
const leastBody = 32 << 20

// Validate names every field that can't be.
func (c Config) Validate() error {
	var wrong []error
	check := func(ok bool, field, want string, got any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("workloads: %s: %v: want %s", field, got, want))
		}
	}
	check(filepath.IsAbs(c.Dir), "Dir", "an absolute path", fmt.Sprintf("%q", c.Dir))
	check(len(c.Images) > 0, "Images", "at least one name", "none")
	for _, image := range c.Images {
		_, err := path.Match(image, "")
		check(image != "" && err == nil, "Images", "the name of an image, or a pattern of names", fmt.Sprintf("%q", image))
	}
	check(1<<20 <= c.MemoryBytes && c.MemoryBytes <= 1<<50, "MemoryBytes", "1 MiB..1 PiB", c.MemoryBytes)
	check(0.01 <= c.CPU && c.CPU <= 4096, "CPU", "0.01..4096", c.CPU)
	check(1 <= c.OutputBytes && c.OutputBytes <= 1<<30, "OutputBytes", "1..1 GiB", c.OutputBytes)
	check(1 <= c.InputBytes && c.InputBytes <= 1<<40, "InputBytes", "1..1 TiB", c.InputBytes)
	check(time.Second <= c.LongestTimeout && c.LongestTimeout <= 24*time.Hour, "LongestTimeout", "1s..24h", c.LongestTimeout)
	check(time.Millisecond <= c.Retention && c.Retention <= 30*24*time.Hour, "Retention", "1ms..720h", c.Retention)
	check(1 <= c.MaxWorkloads && c.MaxWorkloads <= 1<<16, "MaxWorkloads", "1..65536", c.MaxWorkloads)
	check(c.WaitingBytes >= leastBody, "WaitingBytes", "32 MiB or more", c.WaitingBytes)
	check(c.LogBytes >= 1, "LogBytes", "1 or more", c.LogBytes)
	check(c.BodyBytes >= leastBody, "BodyBytes", "32 MiB or more", c.BodyBytes)
	check(1<<20 <= c.RestBytes && c.RestBytes <= 1<<30, "RestBytes", "1 MiB..1 GiB", c.RestBytes)
	check(1 <= c.Uploads && c.Uploads <= 1024, "Uploads", "1..1024", c.Uploads)
	check(c.BodyTimeout >= time.Millisecond, "BodyTimeout", "1ms or more", c.BodyTimeout)
	check(c.WriteTimeout >= time.Millisecond, "WriteTimeout", "1ms or more", c.WriteTimeout)
	check(c.Logger != nil, "Logger", "a logger", "nil")
	return errors.Join(wrong...)
}

// knows says whether an image is in the operator's table.
func (c Config) knows(image string) bool {
	for _, pattern := range c.Images {
		if matched, err := path.Match(pattern, image); pattern == image || err == nil && matched {
			return true
		}
	}
	return false
}
