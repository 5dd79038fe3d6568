package procfs

import (
	"bytes"
	"fmt"
	"strconv"
)

// Stat is /proc/PID/stat as far as it is used here (proc_pid_stat(5)).
type Stat struct {
	// Flags are the kernel's PF_* bits.
	Flags uint64
	// Terminal is tty_nr: the controlling terminal's device, packed as the kernel does; 0: none.
	Terminal int
	// StartTime is in clock ticks after boot. With the pid it names a process for the time of one boot.
	StartTime uint64
}

// Exiting says that the process is on its way out and never comes back to its program (PF_EXITING). The kernel takes its parts away one after
// the other from then on, and calls it a zombie only when it is through.
func (s Stat) Exiting() bool { return s.Flags&0x4 != 0 }

// ParseStat parses /proc/PID/stat. The command in parentheses may hold anything but NUL, so fields count from the last ')': the terminal is
// the seventh of all, flags are the ninth and the start time is the twenty-second.
func ParseStat(data []byte) (Stat, error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return Stat{}, fmt.Errorf("stat: %q", data)
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 20 {
		return Stat{}, fmt.Errorf("stat: %d fields after the name", len(fields))
	}
	var stat Stat
	var err error
	if stat.Terminal, err = strconv.Atoi(string(fields[4])); err != nil {
		return Stat{}, fmt.Errorf("stat: tty_nr: %w", err)
	}
	if stat.Flags, err = strconv.ParseUint(string(fields[6]), 10, 64); err != nil {
		return Stat{}, fmt.Errorf("stat: flags: %w", err)
	}
	if stat.StartTime, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return Stat{}, fmt.Errorf("stat: start time: %w", err)
	}
	return stat, nil
}
