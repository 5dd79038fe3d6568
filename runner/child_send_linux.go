package runner

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// sequence numbers the execs of this daemon.
var sequence atomic.Uint64

// plainFork makes children by fork without CLONE_VM: slower, and the fallback where a shared memory isn't wanted. Tests run both.
var plainFork = false

// send gives the worker the exec with its descriptors.
func (c *Child) send(with IO, ends []int) error {
	fds := append(slices.Clone(ends), c.gate.child)
	header := execHeader{kind: kindExec, sequence: c.sequence, argc: uint32(len(c.inv.Argv)), envc: uint32(len(c.inv.Env)), extra: uint32(c.inv.Extra)}
	if plainFork {
		header.flags |= flagFork
	}
	if c.inv.Own {
		header.flags |= flagOwn
	}
	if c.leave {
		header.flags |= flagLeave
	}
	if c.place.wipe {
		header.flags |= flagWipe
	}
	if c.group != nil {
		header.flags |= flagCgroup
		fds = append(fds, c.group.FD())
	}
	for _, file := range with.Extra {
		fds = append(fds, int(file.Fd()))
	}
	texts := 0
	for _, text := range c.strings() {
		texts += len(text) + 1
	}
	header.texts, header.plan = uint32(texts), uint32(len(c.plan.text))
	message := make([]byte, 0, execHeaderSize+texts+len(c.plan.text))
	message = append(message, bytesOf(&header)...)
	for _, text := range c.strings() {
		message = append(append(message, text...), 0)
	}
	message = append(message, c.plan.text...)
	if len(message) > packetSize {
		body, err := memfd(message[execHeaderSize:])
		if err != nil {
			return err
		}
		defer unix.Close(body)
		fds = append(fds, body)
		header.flags |= flagMemfd
		message = bytesOf(&header)
	}
	return sendPacket(c.worker.conn, message, fds)
}

// strings are the invocation's, in the order of the body.
func (c *Child) strings() []string {
	return slices.Concat([]string{c.inv.Cwd}, c.inv.Argv, c.inv.Env)
}

// sendPacket sends a message with descriptors.
func sendPacket(conn *os.File, message []byte, fds []int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(fds...)
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		for {
			sent = unix.Sendmsg(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
			if !errors.Is(sent, unix.EINTR) {
				return !errors.Is(sent, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, sent); err != nil {
		return fmt.Errorf("worker: sendmsg: %w", err)
	}
	return nil
}

// memfd holds what doesn't fit a packet.
func memfd(data []byte) (int, error) {
	fd, err := unix.MemfdCreate("exec", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			unix.Close(fd)
			return -1, os.NewSyscallError("write", err)
		}
		data = data[max(n, 0):]
	}
	return fd, nil
}

// sentPlan is a plan in the form that workers get.
type sentPlan struct {
	plan enforcer.Plan
	text []byte
	// lengths of the table by number of extra descriptors.
	mu      sync.Mutex
	lengths map[int]int
}

// planTexts are the plans that were sent last. Execs come with equal plans, and encoding one costs more than comparing it.
type planTexts struct {
	mu   sync.Mutex
	kept []*sentPlan // newest last
}

var sentPlans planTexts

// maxTexts is how many are kept.
const maxTexts = 8

func (t *planTexts) get(p enforcer.Plan) (*sentPlan, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.kept) - 1; i >= 0; i-- {
		if t.kept[i].plan.Equal(p) {
			return t.kept[i], nil
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	made := &sentPlan{plan: p, text: text, lengths: map[int]int{}}
	if len(t.kept) == maxTexts {
		t.kept = slices.Delete(t.kept, 0, 1)
	}
	t.kept = append(t.kept, made)
	return made, nil
}

// length is how many steps the plan's table has for an invocation.
func (s *sentPlan) length(inv enforcer.Invocation) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, known := s.lengths[inv.Extra]; known {
		return n, nil
	}
	steps, err := Steps(s.plan, inv, 0)
	if err != nil {
		return 0, err
	}
	s.lengths[inv.Extra] = len(steps)
	return len(steps), nil
}
