package runner

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// Terminal is both ends of a pseudo-terminal: a child's, until that has it, and ours, which is read for the child's output. Close closes both.
type Terminal struct {
	// ours may be written to while somebody else reads.
	ours  *os.File
	child *os.File
	// known is how the kernel names the child's end, link how /proc/PID/fd does.
	known enforcer.Terminal
	link  string
}

// NewTerminal makes one of so many columns and rows. A private one is all that there is in its instance of devpts, which is mounted nowhere: nobody opens it
// by a name, and no name of the host's is near it. Else it is one more in the daemon's own /dev/pts.
func NewTerminal(private bool, columns, rows uint16) (*Terminal, error) {
	directory := unix.AT_FDCWD
	name := "/dev/ptmx"
	if private {
		var err error
		if directory, err = enforcer.Devpts(); err != nil {
			return nil, fmt.Errorf("devpts: %w", err)
		}
		defer unix.Close(directory)
		name = "ptmx"
	}
	// O_NOCTTY: neither end is to control the daemon's own session.
	fd, err := unix.Openat(directory, name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	t := &Terminal{ours: os.NewFile(uintptr(fd), "terminal")}
	if err := errors.Join(t.open(fd), t.Resize(columns, rows)); err != nil {
		t.Close()
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return t, nil
}

// open opens the child's end, by the other and not by a name.
func (t *Terminal) open(fd int) error {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fmt.Errorf("TIOCGPTPEER: %w", errno)
	}
	t.child = os.NewFile(peer, "terminal")
	settings, err := unix.IoctlGetTermios(int(peer), unix.TCGETS)
	if err != nil {
		return err
	}
	settings.Iflag |= unix.IUTF8 // one character is erased, not one byte
	if err := unix.IoctlSetTermios(int(peer), unix.TCSETS, settings); err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(peer), &stat); err != nil {
		return err
	}
	device := uint64(stat.Dev)
	t.known = enforcer.Terminal{Number: enforcer.NumberOf(stat.Rdev), File: fmt.Sprintf("%d:%d:%d", unix.Major(device), unix.Minor(device), stat.Ino)}
	t.link, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(peer)))
	return err
}

// ends are the child's standard streams, each a descriptor of its own; its end is the child's from here.
func (t *Terminal) ends(p enforcer.Plan) (ends []int, err error) {
	defer t.child.Close()
	fd := int(t.child.Fd())
	if p.SetIDs && os.Geteuid() == 0 {
		if err := unix.Fchown(fd, p.Identity.UID, p.Identity.GID); err != nil {
			return nil, os.NewSyscallError("fchown", err)
		}
	}
	for range 3 {
		end, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return ends, os.NewSyscallError("fcntl", err)
		}
		ends = append(ends, end)
	}
	return ends, nil
}

// Write types. What the program doesn't read waits, and so does Write, until the write deadline of File.
func (t *Terminal) Write(data []byte) (int, error) { return t.ours.Write(data) }

// Resize has the terminal's foreground told of another size, by SIGWINCH.
func (t *Terminal) Resize(columns, rows uint16) error {
	return t.control("TIOCSWINSZ", func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	})
}

// Signal sends SIGINT, SIGQUIT or SIGTSTP to the foreground, as the keys for these do, whatever the terminal's settings make of keys.
func (t *Terminal) Signal(signal unix.Signal) error {
	return t.control("TIOCSIG", func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSIG, int(signal)) })
}

func (t *Terminal) control(name string, act func(fd int) error) error {
	raw, err := t.ours.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = act(int(fd)) }); err != nil {
		return err
	}
	return os.NewSyscallError(name, failed)
}

// File is our end, for deadlines.
func (t *Terminal) File() *os.File { return t.ours }

// Close closes what is ours of it.
func (t *Terminal) Close() {
	t.ours.Close()
	if t.child != nil {
		t.child.Close()
	}
}
