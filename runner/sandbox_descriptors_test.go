package runner

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBinaryIsNotOverwritten: a daemon that has descriptors open up to right below its copy of the launcher, with a hole further down, starts launchers
// all the same. os.StartProcess puts its error pipe, which got the hole, right above the highest descriptor that it is given: on the binary, and
// the kernel says EACCES for a pipe, where that one isn't higher.
func TestBinaryIsNotOverwritten(t *testing.T) {
	c := testConfig(t)
	binary := int(c.Binary.Fd())
	socket, other, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	defer other.Close()
	below, err := unix.FcntlInt(other.Fd(), unix.F_DUPFD_CLOEXEC, binary-1)
	if err != nil || below != binary-1 {
		t.Skipf("descriptor %d isn't free for the test: %d, %v", binary-1, below, err)
	}
	theirs := os.NewFile(uintptr(below), "socket")
	defer theirs.Close()
	start := func(socket *os.File) error {
		process, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(binary), []string{Name, "no such mode"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil, socket}})
		if err == nil {
			_, err = process.Wait()
		}
		return err
	}
	if err := start(theirs); !errors.Is(err, unix.EACCES) {
		t.Logf("a socket right below the binary: %v; EACCES is what it was", err)
	}
	high, err := above(theirs, c.Binary)
	if err != nil {
		t.Fatal(err)
	}
	defer high.Close()
	if int(high.Fd()) <= binary {
		t.Errorf("descriptor %d, want one above %d", high.Fd(), binary)
	}
	if err := start(high); err != nil {
		t.Errorf("with the socket above it: %v", err)
	}
}
