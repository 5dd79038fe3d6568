package execd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// segment is a part of our own program's file that is mapped, read-only.
type segment struct{ from, to uintptr }

// ownSegments reads them from a text of /proc/PID/smaps: the mappings of the file at exe that can't be written, and of which this process has no page of its
// own. One that has would lose what was written to it, by a debugger or a loader.
func ownSegments(smaps, exe string) ([]segment, error) {
	var found []segment
	candidate := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if !strings.HasSuffix(fields[0], ":") { // the head of a mapping
			if candidate {
				return nil, errors.New("smaps: a mapping without a line Anonymous")
			}
			if len(fields) != 6 || fields[5] != exe || fields[1] != "r-xp" && fields[1] != "r--p" {
				continue
			}
			from, to, _ := strings.Cut(fields[0], "-")
			begin, err := strconv.ParseUint(from, 16, 64)
			end, err2 := strconv.ParseUint(to, 16, 64)
			if err := errors.Join(err, err2); err != nil || begin >= end {
				return nil, fmt.Errorf("smaps: %.40q isn't a range: %w", fields[0], err)
			}
			found = append(found, segment{uintptr(begin), uintptr(end)})
			candidate = true
			continue
		}
		if candidate && fields[0] == "Anonymous:" {
			candidate = false
			if len(fields) != 3 || fields[1] != "0" {
				found = found[:len(found)-1]
			}
		}
	}
	if candidate {
		return nil, errors.New("smaps: a mapping without a line Anonymous")
	}
	return found, nil
}

// forgetProgram unmaps the pages of our own program's file, of which a start needs ten times of what comes after. They stay in the kernel's cache of files,
// as clean as they were, and come back one by one when they are executed or read.
func forgetProgram() error {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	segments, err := ownSegments(string(smaps), exe)
	if err != nil {
		return err
	}
	for _, one := range segments {
		// madvise(2), MADV_DONTNEED: "subsequent accesses of pages in the range will succeed, but will result in ... repopulating the memory contents
		// from the up-to-date contents of the underlying mapped file".
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, one.from, one.to-one.from, unix.MADV_DONTNEED); errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
	}
	return nil
}
