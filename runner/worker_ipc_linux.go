package runner

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// sysv are the kinds of System V objects: shared memory, queues, semaphores. They outlive their makers, are in no file system, and count for no
// limit of a sandbox. column is where their list in /proc has the uid of who made one.
var sysv = []struct {
	list   string
	column int
	remove uintptr
	args   [3]uintptr // after the id
}{
	{"/proc/sysvipc/shm", 9, unix.SYS_SHMCTL, [3]uintptr{unix.IPC_RMID}},
	{"/proc/sysvipc/msg", 9, unix.SYS_MSGCTL, [3]uintptr{unix.IPC_RMID}},
	{"/proc/sysvipc/sem", 6, unix.SYS_SEMCTL, [3]uintptr{0, unix.IPC_RMID}},
}

// wipe removes every System V object of the sandbox. The daemon asks for it where execs ran before and none runs now: whatever is there was left
// behind. POSIX queues, the other kind of name that isn't a file, nobody can make: RLIMIT_MSGQUEUE is 0.
func (w *shepherd) wipe() error {
	foreign := map[sysvObject]bool{}
	for _, kind := range sysv {
		for again := false; ; again = true {
			left, err := readSysv(kind.list, kind.column)
			if errors.Is(err, unix.ENOENT) {
				break // CONFIG_SYSVIPC isn't set
			}
			if err != nil {
				return err
			}
			if left = slices.DeleteFunc(left, func(o sysvObject) bool { return foreign[o] }); len(left) == 0 {
				break
			}
			if again {
				return fmt.Errorf("%s: %d objects can't be removed", kind.list, len(left))
			}
			for _, object := range left {
				err := w.removeSysv(object, kind.remove, kind.args)
				if errors.Is(err, unix.EPERM) && object.maker != unix.Geteuid() {
					// Another container's: the namespace isn't the sandbox's alone, and no exec here can have had that uid.
					foreign[object] = true
					continue
				}
				if err != nil {
					return fmt.Errorf("%s: %d of uid %d: %w", kind.list, object.id, object.maker, err)
				}
			}
		}
	}
	return nil
}

// removeSysv acts as the maker, who alone may besides root.
func (w *shepherd) removeSysv(object sysvObject, call uintptr, args [3]uintptr) error {
	if own := unix.Geteuid(); object.maker != own {
		if err := effectiveUID(object.maker); err != nil {
			return err
		}
		defer func() {
			if effectiveUID(own) != nil {
				unix.Exit(1) // never go on as the tree's
			}
		}()
	}
	_, _, errno := unix.Syscall6(call, uintptr(object.id), args[0], args[1], args[2], 0, 0)
	if errno != 0 && errno != unix.EINVAL && errno != unix.EIDRM { // it is gone
		return errno
	}
	return nil
}

// sysvObject is one object, by its id and the uid of who made it.
type sysvObject struct{ id, maker int }

func readSysv(path string, column int) ([]sysvObject, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var data []byte
	for buffer := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buffer)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return parseSysv(data, column)
		}
		data = append(data, buffer[:n]...)
	}
}

// parseSysv reads the lines after the heading: key, id, permissions and so on.
func parseSysv(data []byte, column int) ([]sysvObject, error) {
	_, data, _ = bytes.Cut(data, []byte{'\n'})
	var list []sysvObject
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) <= column {
			return nil, fmt.Errorf("sysvipc: %q", line)
		}
		id, err := strconv.Atoi(string(fields[1]))
		if err != nil {
			return nil, fmt.Errorf("sysvipc: id: %w", err)
		}
		maker, err := strconv.Atoi(string(fields[column]))
		if err != nil {
			return nil, fmt.Errorf("sysvipc: maker: %w", err)
		}
		list = append(list, sysvObject{id, maker})
	}
	return list, nil
}
