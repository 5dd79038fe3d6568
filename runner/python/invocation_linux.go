package python

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

//go:embed driver.py
var driver string

// bootstrap executes what descriptor %d holds. It reads by position, so that the descriptor's offset doesn't matter, and closes it: the code
// gets no descriptor of ours but the result's.
const bootstrap = "import os;source=os.pread(%d,%d,0);os.close(%[1]d);exec(source);"

// Invocation is how p is run: the argv, the descriptors that the child gets from extraFrom on, and our end of the result's pipe, for [ReadResult].
// The caller closes extra once the child has them (the pipe ends only then), and result.
//
// Flags: -I leaves out PYTHON* variables, the user's site directory and the working directory on sys.path; -u writes output through; -X utf8
// makes text UTF-8 whatever LANG says.
func Invocation(p policy.Program, extraFrom int) (argv []string, extra []*os.File, result *os.File, err error) {
	if p.Language != policy.LanguagePython {
		return nil, nil, nil, fmt.Errorf("language %q: only %s has a driver", p.Language, policy.LanguagePython)
	}
	defer func() {
		if err != nil {
			for _, file := range extra {
				file.Close()
			}
			argv, extra, result = nil, nil, nil
		}
	}()
	for _, part := range []struct{ name, content string }{{"driver", driver}, {"job", job(p)}} {
		file, err := sealed(part.name, part.content)
		if err != nil {
			return nil, extra, nil, err
		}
		extra = append(extra, file)
	}
	result, write, err := resultPipe()
	if err != nil {
		return nil, extra, nil, err
	}
	return []string{
		"python3", "-I", "-u", "-X", "utf8", "-c", fmt.Sprintf(bootstrap, extraFrom, len(driver)),
		strconv.Itoa(extraFrom + 1), strconv.Itoa(extraFrom + 2),
	}, append(extra, write), result, nil
}

// job is 8 bytes of length, the code, then the inputs.
func job(p policy.Program) string {
	text := make([]byte, 8, 8+len(p.Code)+len(p.Inputs))
	binary.BigEndian.PutUint64(text, uint64(len(p.Code)))
	return string(append(append(text, p.Code...), p.Inputs...))
}

// sealed is a file in memory that nobody can change any more: whoever gets the descriptor could else write to what a later reader takes for ours.
func sealed(name, content string) (*os.File, error) {
	// Never to be executed; kernels before 6.3 don't know the flag, and later ones may be told to insist on it (vm.memfd_noexec).
	fd, err := unix.MemfdCreate("sandboxd-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("sandboxd-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.WriteString(content); err != nil {
		file.Close()
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		file.Close()
		return nil, fmt.Errorf("seek %s: %w", name, err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		file.Close()
		return nil, fmt.Errorf("seal %s: %w", name, err)
	}
	return file, nil
}

// resultPipe has a read end that takes deadlines, and a write end that blocks: O_NONBLOCK belongs to the open file, and a child that inherits
// it would meet EAGAIN in the middle of a large value.
func resultPipe() (read, write *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe2: %w", err)
	}
	write = os.NewFile(uintptr(fds[1]), "result")
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		syscall.Close(fds[0])
		write.Close()
		return nil, nil, fmt.Errorf("fcntl O_NONBLOCK: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "result"), write, nil
}
