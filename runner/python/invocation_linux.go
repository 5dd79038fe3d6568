package python

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

//go:embed driver.py
var driver string

// bootstrap executes what descriptor %[1]d holds: the text of the driver from %[3]d on, or what is compiled of it before. It reads by position, so that
// the descriptor's offset doesn't matter, and closes it: the code gets no descriptor of ours but the result's.
const bootstrap = `import os, marshal, _frozen_importlib_external as own
text = os.pread(%[1]d, %[2]d, 0)
os.close(%[1]d)
exec(marshal.loads(text[4:%[3]d]) if text[:4] == own.MAGIC_NUMBER else text[%[3]d:])`

// Invocation is how p is run: the argv, the descriptors that the child gets from extraFrom on, and our end of the result's pipe, for [ReadResult].
// The caller closes extra once the child has them (the pipe ends only then), and result. What is compiled of the driver may be none.
//
// At limit the driver interrupts the code, which may then hand over what it has. That is no control: whoever waits for the child has a clock of
// his own, and kills when it goes on. 0: it doesn't.
//
// Flags: -I leaves out PYTHON* variables, the user's site directory and the working directory on sys.path; -u writes output through; -X utf8
// makes text UTF-8 whatever LANG says.
func Invocation(p policy.Program, limit time.Duration, compiled Compiled, extraFrom int) (argv []string, extra []*os.File, result *os.File, err error) {
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
	for _, part := range []struct{ name, content string }{{"driver", compiled.withText(driver)}, {"job", job(p, limit)}} {
		file, err := Sealed(part.name, part.content)
		if err != nil {
			return nil, extra, nil, err
		}
		extra = append(extra, file)
	}
	result, write, err := ResultPipe()
	if err != nil {
		return nil, extra, nil, err
	}
	return command(extraFrom, compiled.textAt()+len(driver), compiled.textAt()), append(extra, write), result, nil
}

// Waiting is an invocation whose interpreter waits for its job: what [WriteJob] writes to job. The rest is as in [Invocation]; job is the caller's
// to close. Whoever starts an interpreter before he has a job for it, or wants to look at it first, uses this.
func Waiting(extraFrom int) (argv []string, extra []*os.File, job, result *os.File, err error) {
	file, err := Sealed("driver", driver)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		file.Close()
		return nil, nil, nil, nil, fmt.Errorf("pipe2: %w", err)
	}
	read, job := os.NewFile(uintptr(fds[0]), "job"), os.NewFile(uintptr(fds[1]), "job")
	result, write, err := ResultPipe()
	if err != nil {
		file.Close()
		read.Close()
		job.Close()
		return nil, nil, nil, nil, err
	}
	return command(extraFrom, len(driver), 0), []*os.File{file, read, write}, job, result, nil
}

// WriteJob hands an interpreter that waits its job over, and closes job. The interpreter reads it whole; one that has died is EPIPE.
func WriteJob(to *os.File, p policy.Program, limit time.Duration) error {
	_, err := to.Write(append(jobHeader(p, limit, 0), p.Code...))
	if err == nil {
		_, err = to.Write(p.Inputs)
	}
	return errors.Join(err, to.Close())
}

// command is the interpreter's argv; the descriptors are driver, of size bytes with the text from textAt on, job and result.
func command(extraFrom, size, textAt int) []string {
	return []string{
		"python3", "-I", "-u", "-X", "utf8", "-c", fmt.Sprintf(bootstrap, extraFrom, size, textAt),
		strconv.Itoa(extraFrom + 1), strconv.Itoa(extraFrom + 2),
	}
}

// job is a header, the code, then the inputs.
func job(p policy.Program, limit time.Duration) string {
	return string(jobHeader(p, limit, 0)) + p.Code + string(p.Inputs)
}

// jobHeader is 8 bytes of the code's length, 8 of the limit in milliseconds, and 8 of when an interpreter that was started ahead was handed its job, in
// milliseconds of CLOCK_BOOTTIME; 0 says that its time began with it.
func jobHeader(p policy.Program, limit, handed time.Duration) []byte {
	header := binary.BigEndian.AppendUint64(nil, uint64(len(p.Code)))
	header = binary.BigEndian.AppendUint64(header, uint64(max(limit.Milliseconds(), 0)))
	return binary.BigEndian.AppendUint64(header, uint64(handed.Milliseconds()))
}

// Sealed is a file in memory that nobody can change any more: whoever gets the descriptor could else write to what a later reader takes for ours.
func Sealed(name, content string) (*os.File, error) {
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

// ResultPipe has a read end that takes deadlines, and a write end that blocks: O_NONBLOCK belongs to the open file, and a child that inherits
// it would meet EAGAIN in the middle of a large value.
func ResultPipe() (read, write *os.File, err error) {
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
