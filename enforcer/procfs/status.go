package procfs

// Status is /proc/PID/status of one thread, as far as confinement shows in it.
type Status struct {
	Name string `json:"name"`
	// TGID, PID (of the thread) and PPID are in the reader's PID namespace; NSPID and NSSID (session) run outermost to innermost.
	TGID  int   `json:"tgid"`
	PID   int   `json:"pid"`
	PPID  int   `json:"ppid"`
	NSPID []int `json:"nspid"`
	NSSID []int `json:"nssid"`
	// UIDs and GIDs are real, effective, saved, file system.
	UIDs   [4]int `json:"uids"`
	GIDs   [4]int `json:"gids"`
	Groups []int  `json:"groups"`
	Umask  int    `json:"umask"`
	// The signal masks, bit n-1 for signal n.
	SigBlocked uint64 `json:"sigBlocked"`
	SigIgnored uint64 `json:"sigIgnored"`
	SigCaught  uint64 `json:"sigCaught"`
	// The five capability sets.
	Inheritable uint64 `json:"inheritable"`
	Permitted   uint64 `json:"permitted"`
	Effective   uint64 `json:"effective"`
	Bounding    uint64 `json:"bounding"`
	Ambient     uint64 `json:"ambient"`
	NoNewPrivs  int    `json:"noNewPrivs"`
	// Seccomp is 0 (off), 1 (strict), 2 (filter); SeccompFilters is how many.
	Seccomp        int `json:"seccomp"`
	SeccompFilters int `json:"seccompFilters"`
}

// Limit is a row of /proc/PID/limits; -1 is unlimited.
type Limit struct {
	Name string `json:"name"` // as in enforcer.Host.RLimits
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Mount is a row of /proc/PID/mountinfo.
type Mount struct {
	ID      int      `json:"id"`
	Parent  int      `json:"parent"`
	Dev     string   `json:"dev"`
	Root    string   `json:"root"`
	Target  string   `json:"target"`
	Options []string `json:"options"`
	// Propagation has "shared:N", "master:N", …; empty: private.
	Propagation  []string `json:"propagation,omitempty"`
	Type         string   `json:"type"`
	Source       string   `json:"source"`
	SuperOptions []string `json:"superOptions"`
}
