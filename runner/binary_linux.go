package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// lowestBinary keeps the binary's descriptor clear of those that a launcher is started with: it is executed by its number.
const lowestBinary = 64

// sealed are all the seals: nobody, root included, changes the bytes or takes a seal off (fcntl(2)).
const sealed = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// OpenBinary copies the launcher's binary into a sealed memfd, from which it is executed. So nothing inside a sandbox can overwrite it through
// /proc/PID/exe (CVE-2019-5736), and a binary that is replaced on disk doesn't mix with a running daemon. Its mode is execute only: to a
// process that can't read its own program the kernel never gives core dumps or tracers (execve(2), PR_SET_DUMPABLE).
func OpenBinary(path string) (*os.File, error) {
	source, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // to open a FIFO could take for ever
	if err != nil {
		return nil, err
	}
	defer source.Close()
	stat, err := source.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() || stat.Size() == 0 {
		return nil, &os.PathError{Op: "execute", Path: path, Err: errors.New("not a regular file with content")}
	}
	if stat.Mode()&0o002 != 0 {
		return nil, &os.PathError{Op: "execute", Path: path, Err: errors.New("everybody may write it; take that away (chmod o-w)")}
	}
	// A process that forks now would hold the writable descriptor until its execve, and ours would answer ETXTBSY.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before 6.3: always executable
		fd, err = unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	writable := os.NewFile(uintptr(fd), Name)
	defer writable.Close()
	if n, err := io.Copy(writable, source); err != nil || n != stat.Size() {
		return nil, fmt.Errorf("copy %s: %d of %d bytes: %w", path, n, stat.Size(), err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	readable, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the memfd again: %w", err)
	}
	defer unix.Close(readable)
	if err := unix.Fchmod(readable, 0o111); err != nil {
		return nil, fmt.Errorf("fchmod: %w", err)
	}
	high, err := unix.FcntlInt(uintptr(readable), unix.F_DUPFD_CLOEXEC, lowestBinary)
	if err != nil {
		return nil, fmt.Errorf("F_DUPFD_CLOEXEC: %w", err)
	}
	return os.NewFile(uintptr(high), Name), nil
}

// binaryRows say that the launcher runs the sealed program: that file by its inode, and its seals as the kernel tells them.
func binaryRows(binary *os.File, s enforcer.SandboxState) ([]policy.Row, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(binary.Fd()), &stat); err != nil {
		return nil, err
	}
	seals, err := unix.FcntlInt(binary.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("F_GET_SEALS: %w", err)
	}
	row := func(control, want, got string) policy.Row {
		return policy.Row{Control: control, Want: want, Got: got, Held: want == got, Evidence: policy.EvidenceKernel}
	}
	return []policy.Row{
		row("launcher.executable.inode", fmt.Sprintf("%d:%d:%d", unix.Major(uint64(stat.Dev)), unix.Minor(uint64(stat.Dev)), stat.Ino), s.ExeID),
		row("launcher.executable.seals", fmt.Sprintf("%#x", sealed), fmt.Sprintf("%#x", seals&sealed)),
	}, nil
}
