package runner

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// target is what argv[0] and cwd led to, found before the child is born. Both are looked up with the child's ids for file access, so that
// nothing is found, or missed, that the child itself wouldn't.
type target struct {
	// directory is the cwd as a C string, in the message.
	directory []byte
	// path is the program's as a C string, for when it is executed by path.
	path   []byte
	byPath bool
	// texts are the link texts of target and cwd.
	texts [2][4096]byte
	sizes [2]int
}

// find opens cwd and program; the program's descriptor goes where the table takes it from. The program is this process's own binary with own,
// whatever argv0 says.
func (t *target) find(plan *enforcer.Plan, directory, argv0, path []byte, own bool) error {
	t.directory, t.sizes = directory, [2]int{}
	if plan.SetIDs {
		if err := fileIDs(plan.Identity.UID, plan.Identity.GID); err != nil {
			return err
		}
		uid, gid := unix.Geteuid(), unix.Getegid()
		defer func() {
			if fileIDs(uid, gid) != nil {
				unix.Exit(1) // never go on as the child's
			}
		}()
	}
	cwd, err := open(atCWD, directory, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(cwd)
		t.sizes[1] = linkText(cwd, t.texts[1][:])
	} else {
		cwd = atCWD // the child's own chdir says what is wrong, unless an absolute program is what is missing
	}
	var fd int
	if own {
		fd, err = open(atCWD, ownBinary, unix.O_PATH)
	} else {
		fd, err = t.program(cwd, argv0, path)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Dup3(fd, sourceTarget, unix.O_CLOEXEC); err != nil {
		return err
	}
	t.sizes[0] = linkText(sourceTarget, t.texts[0][:])
	t.byPath = !own && script(fd, cwd, t.path)
	return nil
}

// ownBinary is a magic link to the file that this process executes, by its inode: no path is looked up.
var ownBinary = cstring("/proc/self/exe")

// atCWD is AT_FDCWD, the descriptor that stands for the current directory.
const atCWD = unix.AT_FDCWD

// program opens argv[0], which is looked up in PATH unless it has a slash.
func (t *target) program(cwd int, argv0, path []byte) (int, error) {
	if bytes.IndexByte(argv0, '/') >= 0 {
		t.path = append(t.path[:0], argv0...)
		t.path = append(t.path, 0)
		return open(cwd, t.path, unix.O_PATH)
	}
	failed := error(unix.ENOENT)
	for len(path) > 0 {
		directory, rest, _ := bytes.Cut(path, []byte{':'})
		path = rest
		// An empty or relative entry would mean whatever directory the caller named.
		if len(directory) == 0 || directory[0] != '/' {
			continue
		}
		t.path = append(append(append(append(t.path[:0], directory...), '/'), argv0...), 0)
		fd, err := open(atCWD, t.path, unix.O_PATH)
		if err == nil {
			if err = executable(fd); err == nil {
				return fd, nil
			}
			unix.Close(fd)
		}
		if errors.Is(err, unix.EACCES) {
			failed = err // and go on, as execvp(3) does
		}
	}
	return -1, failed
}

// executable says whether it is a regular file that these ids may execute.
func executable(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_FACCESSAT2, uintptr(fd), address(empty), unix.X_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// script says whether the program must be executed by its path: an interpreter opens the script by name, and the name that execveat gives
// it, /dev/fd/N, is closed by then. A file that can't be read might be a script, so it is one here.
func script(fd, cwd int, path []byte) bool {
	var opened, read unix.Stat_t
	if unix.Fstat(fd, &opened) != nil || opened.Mode&unix.S_IFMT != unix.S_IFREG {
		return false // execveat says what is wrong with it
	}
	contents, err := open(cwd, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return true
	}
	defer unix.Close(contents)
	if unix.Fstat(contents, &read) != nil || read.Dev != opened.Dev || read.Ino != opened.Ino {
		return false // somebody changes it: what was opened first is what runs
	}
	var first [2]byte
	n, err := unix.Pread(contents, first[:], 0)
	return err != nil || n == 2 && first == [2]byte{'#', '!'}
}

// open opens a C string's path, close-on-exec, without making a Go string of it.
func open(directory int, path []byte, flags int) (int, error) {
	fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT, uintptr(directory), address(path), uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// linkText reads the name of an open file as the kernel says it.
func linkText(fd int, buffer []byte) int {
	name := fmt.Appendf(make([]byte, 0, 32), "/proc/self/fd/%d\x00", fd)
	n, _, errno := syscall.Syscall6(unix.SYS_READLINKAT, uintptr(uint64(atFDCWD)), address(name), address(buffer), uintptr(len(buffer)), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// fileIDs sets the ids that this thread accesses files with. setfsuid(2) says nothing of failure, so it is asked again.
func fileIDs(uid, gid int) error {
	const ask = ^uintptr(0)
	syscall.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	syscall.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	gotGID, _, _ := syscall.RawSyscall(unix.SYS_SETFSGID, ask, 0, 0)
	gotUID, _, _ := syscall.RawSyscall(unix.SYS_SETFSUID, ask, 0, 0)
	if int(gotUID) != uid || int(gotGID) != gid {
		return fmt.Errorf("file access ids are %d:%d, want %d:%d: %w", gotUID, gotGID, uid, gid, unix.EPERM)
	}
	return nil
}

// searchPath is the value of PATH among C strings.
func searchPath(env []byte) []byte {
	for len(env) > 0 {
		entry, rest, _ := bytes.Cut(env, []byte{0})
		if value, found := bytes.CutPrefix(entry, []byte(pathVariable)); found {
			return value
		}
		env = rest
	}
	return nil
}

const pathVariable = "PATH="
