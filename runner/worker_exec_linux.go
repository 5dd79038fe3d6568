package runner

import (
	"bytes"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exec is one exec from its message to the tree's end. A [*failure] means that no child was made; any other error that this worker is of no more use.
func (w *shepherd) exec(m message) error {
	w.sequence, w.reaped, w.leave = m.sequence, 0, m.flags&flagLeave != 0
	pid, err := w.birth(m)
	// The gate first: its end is what the daemon takes for execve, and this process holds a copy of it.
	closeSources()
	w.inbox.release()
	if err != nil {
		return err
	}
	w.leader = pid
	return w.follow()
}

// birth makes the table whole and the child with it. With vfork it comes back when the child has executed or ended.
func (w *shepherd) birth(m message) (int, error) {
	if m.flags&flagWipe != 0 && !sabotaged("wipe") {
		if err := w.wipe(); err != nil {
			return 0, &failure{"wipe", err}
		}
	}
	plan, err := w.plans.get(m.plan, int(m.extra), w.words)
	if err != nil {
		return 0, err
	}
	if plan.rules >= 0 {
		if err := unix.Dup3(plan.rules, sourceRules, unix.O_CLOEXEC); err != nil {
			return 0, &failure{"landlock.create", err}
		}
	}
	if err := w.invocation(m, plan); err != nil {
		return 0, err
	}
	w.sayTarget()
	if w.treeUID, w.treeGID = unix.Geteuid(), unix.Getegid(); plan.plan.SetIDs {
		w.treeUID, w.treeGID = plan.plan.Identity.UID, plan.plan.Identity.GID
	}
	*w.words = sharedWords{born: gateWords{kind: kindBorn}, listener: gateWords{kind: kindListener}, ready: gateWords{kind: kindReady, result: int64(len(plan.rows) - readyRow(plan.rows, w.words))}}
	w.rows, w.gate = plan.rows, plan.gate
	w.args = cloneArgs{
		flags:      unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND | unix.CLONE_VM | unix.CLONE_VFORK,
		pidfd:      uint64(uintptr(unsafe.Pointer(&w.pidfd))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if m.flags&flagFork != 0 {
		w.args.flags &^= unix.CLONE_VM | unix.CLONE_VFORK
	}
	if m.flags&flagCgroup != 0 {
		w.args.flags |= unix.CLONE_INTO_CGROUP
		w.args.cgroup = sourceCgroup
	}
	fault("worker.spawn")
	pid, errno := 0, refusal("worker.clone")
	if errno == 0 {
		pid, errno = w.spawn()
	}
	// A group for the child is clone3's alone, and there is none where somebody else's profile refuses it.
	if errno == unix.ENOSYS && !w.old && m.flags&flagCgroup == 0 {
		w.old = true
		pid, errno = w.spawn()
	}
	fault("worker.spawned")
	if errno != 0 {
		return 0, &failure{"clone3", errno}
	}
	return pid, nil
}

// readyRow is where READY is written: what it says is left begins there.
func readyRow(rows []row, words *sharedWords) int {
	for i := range rows {
		if rows[i].args[1] == uintptr(unsafe.Pointer(&words.ready)) {
			return i
		}
	}
	return len(rows)
}

// invocation puts argv, env, cwd and target into the table.
func (w *shepherd) invocation(m message, plan *readyPlan) error {
	cwdEnd := bytes.IndexByte(m.texts, 0)
	if cwdEnd < 0 {
		return fmt.Errorf("%w: no cwd", ErrProtocol)
	}
	directory, texts := m.texts[:cwdEnd+1], m.texts[cwdEnd+1:]
	var err error
	argv0, _, _ := bytes.Cut(texts, empty)
	if w.argv, texts, err = pointers(w.argv, m.argc, texts); err != nil {
		return err
	}
	path := searchPath(texts)
	if w.envp, _, err = pointers(w.envp, m.envc, texts); err != nil {
		return err
	}
	if err := w.target.find(&plan.plan, directory, argv0, path, m.flags&flagOwn != 0); err != nil {
		return &failure{"execve", err}
	}
	plan.invoke(&w.target, w.argv, w.envp)
	return nil
}

// sayTarget tells the daemon what will be executed where. It has the message by the time it has READY.
func (w *shepherd) sayTarget() {
	t := &w.target
	header := targetHeader{kind: kindTarget, sequence: w.sequence, target: uint32(t.sizes[0]), cwd: uint32(t.sizes[1])}
	if t.byPath {
		header.byPath = 1
	}
	w.out = append(w.out[:0], bytesOf(&header)...)
	w.out = append(w.out, t.texts[0][:t.sizes[0]]...)
	w.out = append(w.out, t.texts[1][:t.sizes[1]]...)
	w.send(w.out)
}

// sayExit tells the daemon of the leader's end, and in the same breath that nobody is left, if so.
func (w *shepherd) sayExit(status syscall.WaitStatus, usage *syscall.Rusage, executed, empty bool) {
	message := exitMessage{kind: kindExit, sequence: w.sequence, status: uint32(status), reaped: uint32(w.reaped), rusage: *usage}
	if empty {
		message.flags |= exitEmpty
	}
	if w.words.failed.kind != 0 {
		message.flags |= exitStepFailed
		message.step, message.result = w.words.failed.step, w.words.failed.result
	}
	if executed {
		message.flags |= exitExecuted
	}
	w.out = append(w.out[:0], bytesOf(&message)...)
	w.send(w.out)
}

// sayEmpty tells the daemon that nothing is left.
func (w *shepherd) sayEmpty() {
	message := emptyMessage{kind: kindEmpty, sequence: w.sequence, reaped: uint32(w.reaped)}
	w.out = append(w.out[:0], bytesOf(&message)...)
	w.send(w.out)
}
