package execd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// settleAfter is how long after its start a daemon gives back what only the start has used: by then the pool is full.
const settleAfter = time.Second

// gcPercent lets garbage grow to twice of what lives, some 3 MiB: the default would collect every fifty execs. GOGC in the environment wins.
const gcPercent = 200

// settle keeps an idle daemon small. Loading policy and testing it takes ten times of what it leaves, of heap and of code.
func (s *Service) settle() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	select {
	case <-time.After(settleAfter):
	case <-s.life.Done():
		return
	}
	debug.FreeOSMemory()
	if err := unmapCode(); err != nil {
		s.logger.Debug("code used at the start stays mapped", "error", err)
	}
}

// unmapCode takes the pages of this program's own code and constants out of the process. Those that are needed again come back from the page
// cache, one fault for each 64 KiB.
func unmapCode() error {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer maps.Close()
	return eachConstant(maps, own, func(start, end uintptr) error {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
		return nil
	})
}

// eachConstant calls visit with the mappings of a file in smaps (proc_pid_smaps(5)) that can't be written and of which no page differs from the
// file: a page that does, such as one with relocated addresses, would be lost.
func eachConstant(smaps io.Reader, file string, visit func(start, end uintptr) error) error {
	var start, end uintptr
	wanted := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Bytes()
		fields := bytes.Fields(line)
		switch {
		case len(fields) >= 2 && len(fields[1]) == 4 && !bytes.HasSuffix(fields[0], []byte{':'}):
			_, err := fmt.Sscanf(string(fields[0]), "%x-%x", &start, &end)
			wanted = err == nil && len(fields) == 6 && string(fields[5]) == file && fields[1][0] == 'r' && fields[1][1] == '-' && fields[1][3] == 'p'
		case wanted && bytes.HasPrefix(line, []byte("Anonymous:")):
			if len(fields) == 3 && string(fields[1]) == "0" {
				if err := visit(start, end); err != nil {
					return err
				}
			}
			wanted = false
		}
	}
	return nil
}
