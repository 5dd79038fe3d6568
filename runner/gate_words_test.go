package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// wordsOnly is a child as the daemon sees it, of which there is nothing but a gate and a worker's socket: the test says what comes on them. Child and worker
// are the test's own process, which lives.
func wordsOnly(t *testing.T) (c *Child, childEnd int, workerEnd *os.File) {
	t.Helper()
	gate, err := newGate()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	self := os.NewFile(uintptr(pidfd), "pidfd")
	t.Cleanup(func() {
		gate.close()
		ours.Close()
		theirs.Close()
		self.Close()
	})
	return &Child{gate: gate, worker: &worker{conn: ours, pidfd: self, pid: os.Getpid()}, sequence: 8, pidfd: pidfd, pid: os.Getpid()}, gate.child, theirs
}

func say(t *testing.T, fd int, message []byte) {
	t.Helper()
	if _, err := unix.Write(fd, message); err != nil {
		t.Fatal(err)
	}
}

// A child at its gate is silent. One that isn't, whatever it says, isn't released.
func TestReleaseOfAChildThatSpoke(t *testing.T) {
	c, childEnd, _ := wordsOnly(t)
	say(t, childEnd, bytesOf(&gateWords{kind: kindReady}))
	if err := c.Release(); !errors.Is(err, ErrProtocol) || !c.released.IsZero() {
		t.Errorf("Release: %v, want a protocol error", err)
	}
	var got [2]byte
	if _, _, err := unix.Recvfrom(childEnd, got[:], unix.MSG_DONTWAIT); err != unix.EAGAIN {
		t.Errorf("%v came through the gate (%v)", got, err)
	}
}

// READY is the word of the process that was born and of no other that holds the gate.
func TestReadyOfAnother(t *testing.T) {
	c, childEnd, workerEnd := wordsOnly(t)
	workerEnd.Close() // nothing is to be heard there
	say(t, childEnd, bytesOf(&gateWords{kind: kindBorn}))
	held := os.NewFile(uintptr(childEnd), "gate")
	defer func() { c.gate.child = -1; held.Close() }()
	word := ""
	for _, b := range bytesOf(&gateWords{kind: kindReady}) {
		word += fmt.Sprintf(`\%03o`, b)
	}
	another := exec.Command("sh", "-c", "printf '"+word+"'; exec sleep 1000 >/dev/null") // it must be there to be told from the first
	another.Stdout = held
	if err := another.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		another.Process.Kill()
		another.Wait()
	}()
	if err := c.toGate(context.Background(), IO{}); !errors.Is(err, ErrProtocol) {
		t.Errorf("%v, want a protocol error", err)
	}
}

// What a worker says of one exec isn't taken for another's.
func TestWordOfAnotherExec(t *testing.T) {
	for name, message := range map[string][]byte{
		"exit":   bytesOf(&exitMessage{kind: kindExit, sequence: 7}),
		"empty":  bytesOf(&emptyMessage{kind: kindEmpty, sequence: 7}),
		"target": bytesOf(&targetHeader{kind: kindTarget, sequence: 7}),
		"failed": bytesOf(&failedHeader{kind: kindFailed, sequence: 7}),
	} {
		c, _, workerEnd := wordsOnly(t)
		say(t, int(workerEnd.Fd()), message)
		if err := c.next(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v, want a protocol error", name, err)
		}
	}
}

func TestReleasedTwice(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	c := prepared(t, s, testPlan(t, s), testInvocation("exec sleep 1000"))
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(); !errors.Is(err, ErrProtocol) {
		t.Errorf("the second Release: %v", err)
	}
	c.Abort()
}
