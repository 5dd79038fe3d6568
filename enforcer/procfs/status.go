package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Status is /proc/PID/status of one thread, as far as confinement shows in it.
type Status struct {
	Name string `json:"name"`
	// TGID, PID (of the thread) and PPID are in the reader's PID namespace; NSPID and NSSID (session) run outermost to innermost.
	TGID int `json:"tgid"`
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// Tracer is who traces it (ptrace), 0: nobody.
	Tracer int   `json:"tracer"`
	NSPID  []int `json:"nspid"`
	NSSID  []int `json:"nssid"`
	// UIDs and GIDs are real, effective, saved, file system.
	UIDs   [4]int `json:"uids"`
	GIDs   [4]int `json:"gids"`
	Groups []int  `json:"groups"`
	Umask  int    `json:"umask"`
	// FDSize is how many descriptors its table has room for: all open ones are below.
	FDSize int `json:"fdSize"`
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

// statusLines are the lines of a status file that are read; each must be there exactly once. Others are the kernel's to add.
var statusLines = []struct {
	key   string
	parse func(*Status, []byte) error
}{
	{"Name", func(s *Status, v []byte) error { s.Name = string(v); return nil }},
	{"State", func(_ *Status, v []byte) error { return alive(v) }},
	{"Umask", func(s *Status, v []byte) error { return number(v, 8, &s.Umask) }},
	{"Tgid", func(s *Status, v []byte) error { return number(v, 10, &s.TGID) }},
	{"Pid", func(s *Status, v []byte) error { return number(v, 10, &s.PID) }},
	{"PPid", func(s *Status, v []byte) error { return number(v, 10, &s.PPID) }},
	{"TracerPid", func(s *Status, v []byte) error { return number(v, 10, &s.Tracer) }},
	{"Uid", func(s *Status, v []byte) error { return four(v, &s.UIDs) }},
	{"Gid", func(s *Status, v []byte) error { return four(v, &s.GIDs) }},
	{"FDSize", func(s *Status, v []byte) error { return number(v, 10, &s.FDSize) }},
	{"Groups", func(s *Status, v []byte) error { return numbers(v, &s.Groups) }},
	{"NSpid", func(s *Status, v []byte) error { return someNumbers(v, &s.NSPID) }},
	{"NSsid", func(s *Status, v []byte) error { return someNumbers(v, &s.NSSID) }},
	{"SigBlk", func(s *Status, v []byte) error { return mask(v, &s.SigBlocked) }},
	{"SigIgn", func(s *Status, v []byte) error { return mask(v, &s.SigIgnored) }},
	{"SigCgt", func(s *Status, v []byte) error { return mask(v, &s.SigCaught) }},
	{"CapInh", func(s *Status, v []byte) error { return mask(v, &s.Inheritable) }},
	{"CapPrm", func(s *Status, v []byte) error { return mask(v, &s.Permitted) }},
	{"CapEff", func(s *Status, v []byte) error { return mask(v, &s.Effective) }},
	{"CapBnd", func(s *Status, v []byte) error { return mask(v, &s.Bounding) }},
	{"CapAmb", func(s *Status, v []byte) error { return mask(v, &s.Ambient) }},
	{"NoNewPrivs", func(s *Status, v []byte) error { return number(v, 10, &s.NoNewPrivs) }},
	{"Seccomp", func(s *Status, v []byte) error { return number(v, 10, &s.Seccomp) }},
	{"Seccomp_filters", func(s *Status, v []byte) error { return number(v, 10, &s.SeccompFilters) }},
}

// statusLine gives the index of each key in statusLines.
var statusLine = func() map[string]int {
	index := make(map[string]int, len(statusLines))
	for i, line := range statusLines {
		index[line.key] = i
	}
	return index
}()

// ParseStatus parses /proc/PID/status or /proc/PID/task/TID/status (proc_pid_status(5)). That of a process or thread that has ended (a zombie)
// is an error that wraps [os.ErrProcessDone]: the kernel has taken most of its state away already.
func ParseStatus(data []byte) (Status, error) {
	var status Status
	var seen uint64
	for line := range bytes.Lines(data) {
		line, ended := bytes.CutSuffix(line, []byte{'\n'})
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || !ended {
			return Status{}, fmt.Errorf("status: line %q", line)
		}
		i, ok := statusLine[string(key)]
		if !ok {
			continue
		}
		if seen&(1<<i) != 0 {
			return Status{}, fmt.Errorf("status: %s twice", key)
		}
		seen |= 1 << i
		value, ok = bytes.CutPrefix(value, []byte{'\t'})
		if !ok {
			return Status{}, fmt.Errorf("status: line %q", line)
		}
		if err := statusLines[i].parse(&status, value); err != nil {
			return Status{}, fmt.Errorf("status: %s: %w", key, err)
		}
	}
	for i, line := range statusLines {
		if seen&(1<<i) == 0 {
			return Status{}, fmt.Errorf("status: no line %s", line.key)
		}
	}
	return status, nil
}

// alive refuses the states in which a task has no memory, files or namespaces any more: zombie and dead.
func alive(value []byte) error {
	if len(value) == 0 {
		return fmt.Errorf("empty")
	}
	switch value[0] {
	case 'Z', 'X', 'x':
		return fmt.Errorf("%s: %w", value, os.ErrProcessDone)
	case 'R', 'S', 'D', 'T', 't', 'I', 'P':
		return nil
	}
	return fmt.Errorf("unknown state %q", value)
}

func number(value []byte, base int, into *int) error {
	n, err := strconv.ParseUint(string(value), base, 32)
	if err != nil {
		return err
	}
	*into = int(n)
	return nil
}

func mask(value []byte, into *uint64) error {
	if len(value) != 16 {
		return fmt.Errorf("mask %q has not 16 digits", value)
	}
	n, err := strconv.ParseUint(string(value), 16, 64)
	if err != nil {
		return err
	}
	*into = n
	return nil
}

func four(value []byte, into *[4]int) error {
	var all []int
	if err := numbers(value, &all); err != nil {
		return err
	}
	if len(all) != 4 {
		return fmt.Errorf("%d ids instead of 4", len(all))
	}
	*into = [4]int(all)
	return nil
}

func someNumbers(value []byte, into *[]int) error {
	if err := numbers(value, into); err != nil {
		return err
	}
	if len(*into) == 0 {
		return fmt.Errorf("no number")
	}
	return nil
}

// numbers reads a list separated by blanks; none is an empty list, not nil.
func numbers(value []byte, into *[]int) error {
	list := make([]int, 0, 4)
	for field := range bytes.FieldsSeq(value) {
		var n int
		if err := number(field, 10, &n); err != nil {
			return err
		}
		list = append(list, n)
	}
	*into = list
	return nil
}
