package policy

import (
	"math"
	"strconv"
)

// Limits bounds what one exec may use. Zero means not asked: [Limits.Defaulted] fills in what always applies; MemoryBytes, CPU, CPUSeconds and
// FileBytes stay unlimited.
type Limits struct {
	// TimeoutSeconds is wall-clock time, 0.001 to 86,400; fractions count.
	TimeoutSeconds float64 `json:"timeoutSeconds,omitzero"`
	// OutputBytes is how much of stdout, and of stderr, is kept; at most 1 GiB.
	OutputBytes int64 `json:"outputBytes,omitzero"`
	// MemoryBytes is the cgroup's memory.max (swap off).
	MemoryBytes int64 `json:"memoryBytes,omitzero"`
	// Pids is how many processes and threads may exist at once.
	Pids int64 `json:"pids,omitzero"`
	// CPU is in cores; fractions count (cgroup cpu.max).
	CPU float64 `json:"cpu,omitzero"`
	// CPUSeconds is the processor time of the whole tree, user and system, on all cores together, 0.01 to 31,536,000; fractions count.
	CPUSeconds float64 `json:"cpuSeconds,omitzero"`
	// OpenFiles is RLIMIT_NOFILE.
	OpenFiles int64 `json:"openFiles,omitzero"`
	// FileBytes is the largest file that may be written (RLIMIT_FSIZE).
	FileBytes int64 `json:"fileBytes,omitzero"`
}

// What applies when nothing is asked.
const (
	defaultTimeoutSeconds = 60
	defaultOutputBytes    = 1 << 20
	defaultPids           = 512
	defaultOpenFiles      = 1024
)

// limit is one field of Limits: how it is read and written, and what it may be. A field of Limits has exactly one row here.
type limit struct {
	name        string
	least, most float64 // All bounds are below 2^53, so that they are exact.
	// otherwise is the default; 0 is unlimited.
	otherwise float64
	get       func(Limits) float64
	set       func(*Limits, float64)
}

// limitTable is in the order of the fields of Limits. The bounds: a deadline shorter than a millisecond would round to none; cpu.max takes no less
// than 1 ms in 100 ms; the kernel counts processor time by ticks of up to 10 ms; PID_MAX_LIMIT is 2^22; nr_open is 2^20 by default, and a dynamic loader needs a few descriptors.
var limitTable = []limit{
	{"timeoutSeconds", 0.001, 86400, defaultTimeoutSeconds,
		func(l Limits) float64 { return l.TimeoutSeconds }, func(l *Limits, v float64) { l.TimeoutSeconds = v }},
	{"outputBytes", 1, 1 << 30, defaultOutputBytes,
		func(l Limits) float64 { return float64(l.OutputBytes) }, func(l *Limits, v float64) { l.OutputBytes = int64(v) }},
	{"memoryBytes", 1, 1 << 50, 0,
		func(l Limits) float64 { return float64(l.MemoryBytes) }, func(l *Limits, v float64) { l.MemoryBytes = int64(v) }},
	{"pids", 1, 1 << 22, defaultPids,
		func(l Limits) float64 { return float64(l.Pids) }, func(l *Limits, v float64) { l.Pids = int64(v) }},
	{"cpu", 0.01, 4096, 0,
		func(l Limits) float64 { return l.CPU }, func(l *Limits, v float64) { l.CPU = v }},
	{"cpuSeconds", 0.01, 365 * 86400, 0,
		func(l Limits) float64 { return l.CPUSeconds }, func(l *Limits, v float64) { l.CPUSeconds = v }},
	{"openFiles", 8, 1 << 20, defaultOpenFiles,
		func(l Limits) float64 { return float64(l.OpenFiles) }, func(l *Limits, v float64) { l.OpenFiles = int64(v) }},
	{"fileBytes", 1, 1 << 50, 0,
		func(l Limits) float64 { return float64(l.FileBytes) }, func(l *Limits, v float64) { l.FileBytes = int64(v) }},
}

// Defaulted fills in what wasn't asked for: 60 s, 1 MiB of output a stream, 512 processes, 1024 descriptors.
func (l Limits) Defaulted() Limits {
	for _, row := range limitTable {
		if row.get(l) == 0 {
			row.set(&l, row.otherwise)
		}
	}
	return l
}

// check says what no Limits may be, whoever made them. Zero passes: it was not asked.
func (l Limits) check(field string) *FieldError {
	for _, row := range limitTable {
		value := row.get(l)
		if value == 0 {
			continue
		}
		// Written so that a NaN doesn't pass.
		if !(value >= row.least && value <= row.most) {
			return faultf(member(field, row.name), "%s is out of range %s..%s", number(value), number(row.least), number(row.most))
		}
	}
	return nil
}

func number(value float64) string {
	if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
		return strconv.FormatInt(int64(value), 10)
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// wireLimits is Limits as it comes: a zero that somebody wrote is told from a field that isn't there.
type wireLimits struct {
	TimeoutSeconds *float64 `json:"timeoutSeconds"`
	OutputBytes    *int64   `json:"outputBytes"`
	MemoryBytes    *int64   `json:"memoryBytes"`
	Pids           *int64   `json:"pids"`
	CPU            *float64 `json:"cpu"`
	CPUSeconds     *float64 `json:"cpuSeconds"`
	OpenFiles      *int64   `json:"openFiles"`
	FileBytes      *int64   `json:"fileBytes"`
}

// limits refuses a written zero, since it would otherwise turn into "not asked", that is into the default or into no limit at all.
func (w wireLimits) limits(field string) (Limits, *FieldError) {
	var limits Limits
	for i, value := range []*float64{
		w.TimeoutSeconds, whole(w.OutputBytes), whole(w.MemoryBytes), whole(w.Pids), w.CPU, w.CPUSeconds, whole(w.OpenFiles), whole(w.FileBytes),
	} {
		row := limitTable[i]
		if value == nil {
			continue
		}
		if !(*value >= row.least && *value <= row.most) {
			return Limits{}, faultf(member(field, row.name), "%s is out of range %s..%s", number(*value), number(row.least), number(row.most))
		}
		row.set(&limits, *value)
	}
	return limits, nil
}

// whole is exact for every value in range, since all bounds are below 2^53; what rounds is out of range on either side.
func whole(value *int64) *float64 {
	if value == nil {
		return nil
	}
	return new(float64(*value))
}
