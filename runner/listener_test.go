package runner

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// explained is a sandbox with a plan that explains; skips by name where the kernel has no such listeners.
func explained(t *testing.T) (*Sandbox, enforcer.Host, enforcer.Plan) {
	t.Helper()
	s, host, plan := realSandbox(t, 1)
	if !host.SeccompListener {
		t.Skip("seccomp.listener: Linux 5.19")
	}
	plan, err := plan.Explaining(host)
	if err != nil {
		t.Fatal(err)
	}
	return s, host, plan
}

// listened is one exec from its gate, where its verdict must hold, to its end, where it must hold too.
func listened(t *testing.T, s *Sandbox, host enforcer.Host, plan enforcer.Plan, inv enforcer.Invocation) Exit {
	t.Helper()
	c := prepared(t, s, plan, inv)
	state, err := enforcer.Observe(c.PID(), host)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, "at the gate", enforcer.Check(plan, c.Expect(), state))
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	if state, err = enforcer.ObserveStarted(c.PID(), host); err == nil {
		wantHeld(t, "after execve", enforcer.CheckStarted(plan, c.Expect(), state))
	} else if !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.Wait(ctx)
}

func counted(calls []Call, name string) (found Call) {
	for _, call := range calls {
		if seccomp.Name("amd64", call.Nr) == name || seccomp.Name("arm64", call.Nr) == name {
			return call
		}
	}
	return Call{}
}

// What the filter refuses is refused with the same errno, and heard of; what it allows isn't.
func TestListenerExplains(t *testing.T) {
	both(t, func(t *testing.T) {
		s, host, plan := explained(t)
		exit := listened(t, s, host, plan, testInvocation("sleep 0.1; unshare -U true; unshare -U true; exec unshare -m true"))
		if !strings.Contains(string(exit.Stderr.Data), "Operation not permitted") || exit.CallsCut || !exit.TreeEmpty {
			t.Fatalf("%+v\n%s", exit, exit.Stderr.Data)
		}
		if got := counted(exit.Calls, "unshare"); got.Count != 3 || got.Errno != unix.EPERM || len(exit.Calls) != 1 {
			t.Errorf("%+v, want unshare three times and nothing else", exit.Calls)
		}
		// The same worker has no listener left over for the next.
		if exit := listened(t, s, host, plan, testInvocation("sleep 0.1; echo fine")); len(exit.Calls) != 0 || string(exit.Stdout.Data) != "fine\n" {
			t.Errorf("%+v", exit)
		}
	})
}

// A program that does nothing but call what it may not is heard only so long; it gets no further for that.
func TestListenerIsClosedOnAFlood(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("no python3 on this host")
	}
	s, host, plan := explained(t)
	code := `
import os, errno
seen = {}
for _ in range(30000):
    try:
        os.unshare(0x10000000)
    except OSError as e:
        seen[e.errno] = seen.get(e.errno, 0) + 1
print(sorted(seen.items()))
`
	if !strings.Contains(run(t, s, enforcer.Invocation{Argv: []string{python, "-c", "import os; print(hasattr(os, 'unshare'))"}, Cwd: "/work"}, IO{}).text(), "True") {
		code = strings.Replace(strings.Replace(code, "import os, errno", "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)", 1),
			"        os.unshare(0x10000000)", "        if libc.unshare(0x10000000): raise OSError(ctypes.get_errno(), '')", 1)
	}
	exit := listened(t, s, host, plan, enforcer.Invocation{Argv: []string{python, "-c", code}, Cwd: "/work"})
	if got := exit.text(); got != "[(1, 10000), (38, 20000)]\n" {
		t.Errorf("answered %q, %s", got, exit.Stderr.Data)
	}
	if got := counted(exit.Calls, "unshare"); got.Count != mostAnswers || !exit.CallsCut {
		t.Errorf("%+v, cut %v", exit.Calls, exit.CallsCut)
	}
}

func (e Exit) text() string { return string(e.Stdout.Data) }

// A tree that waits for answers is killed like any other.
func TestListenerOfTheKilled(t *testing.T) {
	s, host, plan := explained(t)
	c := prepared(t, s, plan, testInvocation("for i in 1 2 3 4; do while :; do unshare -U true 2>/dev/null; done & done; wait"))
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if exit := c.Wait(ctx); !exit.TreeEmpty || !exit.Killed || counted(exit.Calls, "unshare").Count == 0 {
		t.Errorf("%+v", exit)
	}
	_ = host
	prepared(t, s, plan, testInvocation("true")).Abort()
}

// Observing tells of what is allowed, and refuses in the kernel what isn't.
func TestListenerObserves(t *testing.T) {
	both(t, func(t *testing.T) {
		s, host, plan := realSandbox(t, 1)
		if !host.SeccompListener {
			t.Skip("seccomp.listener: Linux 5.19")
		}
		plan, err := plan.Observing(host)
		if err != nil {
			t.Fatal(err)
		}
		exit := listened(t, s, host, plan, testInvocation("sleep 0.1; ls / >/dev/null; unshare -U true"))
		if !strings.Contains(string(exit.Stderr.Data), "Operation not permitted") || exit.CallsCut {
			t.Fatalf("%+v", exit)
		}
		for _, name := range []string{"openat", "getdents64", "mmap", "clock_nanosleep"} {
			if got := counted(exit.Calls, name); got.Count == 0 || got.Errno != 0 {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if got := counted(exit.Calls, "unshare"); got.Count != 0 {
			t.Errorf("unshare was let go on: %+v", got)
		}
	})
}
