package dropin

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/runner/python"
)

const (
	confinedStage = "--confined"
	// fatal begins a report after which there is no interpreter.
	fatal = "can't start: "
	// grace is what a program that is told of the end of its time may take to hand over its value.
	grace = 2 * time.Second
	// startLimit bounds the start of the interpreter, up to its job.
	startLimit = 30 * time.Second
	// valueBytes bounds the value.
	valueBytes = 1 << 30
)

// supervisor is one run.
type supervisor struct {
	contract contract
	strict   bool

	leader  int
	ended   chan unix.WaitStatus // the leader's end
	empty   chan struct{}        // closed when no process of the tree is left
	signals chan os.Signal
	job     *os.File
	value   chan python.Result
	result  *os.File
	output  *relay
	handed  time.Time
}

// start starts an interpreter, confined, has a look at it, and hands it the job.
func (s *supervisor) start(interpreter string) error {
	// Orphans of the tree come to this process, and ECHILD says that there are none.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	s.signals = make(chan os.Signal, 4)
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	signal.Ignore(unix.SIGPIPE) // a reader of stdout that left is no reason to leave the tree behind
	report, err := s.spawn(interpreter)
	if err != nil {
		return err
	}
	go s.reap()
	defer report.Close()
	if err := report.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(report, 4096)) // to the execve, which closes it
	if err != nil {
		return fmt.Errorf("no interpreter after %s: %w", startLimit, err)
	}
	if reason, ok := strings.CutPrefix(string(said), fatal); ok {
		return errors.New(strings.TrimSpace(reason))
	}
	if err := s.look(string(said)); err != nil {
		return err
	}
	s.handed = time.Now()
	go func() {
		// An interpreter that dies before it has read it all is told by its end.
		_ = python.WriteJob(s.job, s.contract.program, s.contract.timeout)
	}()
	return nil
}

// spawn starts the confined stage, whose report ends when it has become the interpreter.
func (s *supervisor) spawn(interpreter string) (report *os.File, err error) {
	argv, extra, job, result, err := python.Waiting(driverDescriptor)
	if err != nil {
		return nil, err
	}
	s.job, s.result = job, result
	defer func() {
		for _, file := range extra {
			file.Close()
		}
	}()
	report, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	extra = append(extra, write)
	if s.output, err = newRelay(os.Stdout); err != nil {
		return nil, err
	}
	extra = append(extra, s.output.write)
	// Not isolated: the image's own PYTHON variables count, as with the reference.
	argv = append([]string{"/proc/self/exe", "python", confinedStage, strconv.FormatUint(s.contract.procs, 10), interpreter, "-u"}, argv[len(argv)-4:]...)
	process, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, s.output.write, os.Stderr, extra[0], extra[1], extra[2], write},
	})
	if err != nil {
		return nil, err
	}
	s.leader = process.Pid
	_ = process.Release() // waited for by reap
	s.ended, s.empty = make(chan unix.WaitStatus, 1), make(chan struct{})
	s.value = make(chan python.Result, 1)
	go func() { s.value <- python.ReadResult(result, valueBytes) }()
	go s.output.run()
	return report, nil
}

// reap takes the end of every process of the tree, the leader's to tell.
func (s *supervisor) reap() {
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, unix.WALL, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			close(s.empty)
			return
		case pid == s.leader:
			s.ended <- status
		}
	}
}

// look reads back what the interpreter is confined by, and says on stderr what isn't in force: what the stage before it reported, and what the kernel
// doesn't have of it. The interpreter waits for its job meanwhile.
func (s *supervisor) look(reported string) error {
	lacks := strings.Split(strings.TrimSpace(reported), "\n")
	if reported == "" {
		lacks = nil
	}
	process, err := procfs.Open(s.leader)
	if err != nil {
		return fmt.Errorf("read-back: %w", err)
	}
	defer process.Close()
	threads, err := process.Threads()
	if err != nil || len(threads) != 1 {
		return fmt.Errorf("read-back: %d threads: %w", len(threads), err)
	}
	state := threads[0]
	for _, row := range []struct {
		name string
		held bool
	}{
		{"no_new_privs", state.NoNewPrivs == 1},
		{"capabilities", state.Effective|state.Permitted|state.Inheritable|state.Ambient == 0},
		{"seccomp", state.Seccomp == 2},
	} {
		if !row.held && !strings.Contains(reported, row.name+": ") {
			return fmt.Errorf("read-back: %s isn't in force, though nothing failed", row.name)
		}
	}
	if len(lacks) > 0 && s.strict {
		return fmt.Errorf("not in force: %s", strings.Join(lacks, "; "))
	}
	for _, lack := range lacks {
		fmt.Fprintf(os.Stderr, "sandboxd-runner: not in force: %s\n", lack)
	}
	return nil
}

// finish waits for the end of the run, ends its tree, and writes what is ours to write. It returns the exit status.
func (s *supervisor) finish() int {
	limit := time.NewTimer(time.Until(s.handed.Add(s.contract.timeout)))
	defer limit.Stop()
	last := time.NewTimer(time.Until(s.handed.Add(s.contract.timeout + grace)))
	defer last.Stop()
	late, stopped := false, 0
	var status unix.WaitStatus
wait:
	for {
		select {
		case status = <-s.ended:
			late = late || time.Since(s.handed) >= s.contract.timeout
			break wait
		case <-limit.C:
			late = true
			_ = unix.Kill(s.leader, unix.SIGALRM) // it isn't reaped, or ended would have said so: reap hands it over before it takes another
		case <-last.C:
			break wait
		case got := <-s.signals:
			if number, ok := got.(syscall.Signal); ok {
				stopped = int(number)
			}
			break wait
		}
	}
	gone := s.killTree()
	value := s.take(gone)
	s.output.finish(gone)
	if !gone {
		fmt.Fprintln(os.Stderr, "sandboxd-runner: a process can't be ended, in the kernel for what doesn't answer")
	}
	if stopped != 0 {
		return 128 + stopped
	}
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if late {
		code = 124
		fmt.Fprintf(os.Stderr, "sandbox exceeded timeout of %ds\n", int(s.contract.timeout/time.Second))
	}
	if s.contract.malformed {
		return code // Python has said why
	}
	if value.How == python.HowFailed {
		fmt.Fprintf(os.Stderr, "sandboxd-runner: no return value: %s\n", value.Reason)
	}
	if err := s.output.marker(value.Text); err != nil {
		return ours(err)
	}
	return code
}

// take gives the value: whole when the tree is gone, for then nobody is left to write more.
func (s *supervisor) take(gone bool) python.Result {
	bound := time.Now()
	if gone {
		bound = bound.Add(grace)
	}
	if err := s.result.SetReadDeadline(bound); err != nil {
		s.result.Close()
	}
	return <-s.value
}
