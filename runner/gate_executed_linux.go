package runner

import (
	"bytes"
	"fmt"
)

// hasExecuted asks the kernel whether a process has executed anything since its birth. It must not have been reaped.
//
// The end of the gate doesn't say so: a dying process closes its files too, and is no zombie yet. But the flag PF_FORKNOEXEC, which fork sets,
// is taken away by execve past its point of no return, once the old memory is gone: before close-on-exec or, on some kernels, after it.
// /proc/PID/stat shows it to everybody.
func hasExecuted(pid int, buffer []byte) (bool, error) {
	stat, err := readSmall(fmt.Sprintf("/proc/%d/stat", pid), buffer)
	if err != nil {
		return false, err
	}
	const flagsField, forkedNotExecuted = 6, 0x40 // after the name: state ppid pgrp session tty tpgid flags
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flagsField {
		return false, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	flags := 0
	for _, digit := range fields[flagsField] {
		flags = flags*10 + int(digit-'0')
	}
	return flags&forkedNotExecuted == 0, nil
}
