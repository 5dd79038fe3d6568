package runner

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A call that fails is put before each row of the table in turn. The report names it, the child is gone, and the worker is as it was.
func TestFaultAtEveryRow(t *testing.T) {
	steps, err := Steps(outsidePlan(), testInvocation("true"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range []bool{false, true} {
		plainFork = fork
		defer func() { plainFork = false }()
		for at := range steps {
			name := fmt.Sprintf("fork=%t/%s", fork, steps[at].Name)
			t.Run(name, func(t *testing.T) {
				w := outsideWorker(t, fmt.Sprintf("%s=%d", faultVariable, at))
				alter = func(steps []Step) []Step { return faulty(steps, at) }
				defer func() { alter = sabotage }()
				before := -1
				for range 2 {
					k := &kept{}
					err := faultyExec(t, w, k)
					var step *StepError
					if !errors.As(err, &step) || step.Step != "fault" || step.Errno != syscall.EBADF {
						t.Errorf("%v, want step fault: EBADF", err)
					}
					if !k.clean {
						t.Fatal("the worker was given up")
					}
					if before >= 0 && descriptorsOf(t, w.pid) != before {
						t.Errorf("the worker has %d descriptors, %d before", descriptorsOf(t, w.pid), before)
					}
					before = descriptorsOf(t, w.pid)
					if none, err := childless(w.pid); err != nil || !none {
						t.Errorf("the worker has children, or zombies (%v)", err)
					}
				}
			})
		}
	}
}

// faultyExec goes as far as the fault lets it.
func faultyExec(t *testing.T, w *worker, k *kept) error {
	c, err := outside(t, w, k, outsidePlan(), "echo ran")
	if err != nil {
		return err
	}
	if err = c.Release(); err == nil {
		err = c.Started(context.Background())
	}
	exit := c.Wait(context.Background())
	if !exit.Known || exit.Status.ExitStatus() != exitGate || !exit.TreeEmpty {
		t.Errorf("%+v, want exit status %d", exit, exitGate)
	}
	if len(exit.Stdout.Data) > 0 {
		t.Errorf("the target ran: %q", exit.Stdout.Data)
	}
	return err
}

// TestWorkerLostOnTheWay: a worker that stops, and dies when its exec is given up, leaves nobody to say what became of its child.
func TestWorkerLostOnTheWay(t *testing.T) {
	w, k := outsideWorker(t), &kept{}
	if err := unix.Kill(w.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	killed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(killed)
		killProcess(int(w.pidfd.Fd()))
	})
	defer func() { <-killed }()
	inv := testInvocation("echo ran")
	inv.Cwd = "/"
	_, err := prepare(ctx, place{}, w, k.back, outsidePlan(), inv, IO{OutputBytes: 1 << 20})
	if !errors.Is(err, ErrLeft) || !errors.Is(err, context.DeadlineExceeded) || !k.put || k.clean {
		t.Errorf("%v, worker given back %+v", err, k)
	}
}
