package policy

// Limits bounds what one exec may use. Zero means not asked: [Limits.Defaulted] fills in what always applies; MemoryBytes, CPU and FileBytes
// stay unlimited.
type Limits struct {
	// TimeoutSeconds is wall-clock time, > 0, at most 86,400; fractions count.
	TimeoutSeconds float64 `json:"timeoutSeconds,omitempty"`
	// OutputBytes is how much of stdout, and of stderr, is kept; at most 1 GiB.
	OutputBytes int64 `json:"outputBytes,omitempty"`
	// MemoryBytes is the cgroup's memory.max (swap off).
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// Pids is how many processes and threads may exist at once.
	Pids int64 `json:"pids,omitempty"`
	// CPU is in cores; fractions count (cgroup cpu.max).
	CPU float64 `json:"cpu,omitempty"`
	// OpenFiles is RLIMIT_NOFILE.
	OpenFiles int64 `json:"openFiles,omitempty"`
	// FileBytes is the largest file that may be written (RLIMIT_FSIZE).
	FileBytes int64 `json:"fileBytes,omitempty"`
}
