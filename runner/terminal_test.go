package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// seat is a shell at a terminal, and what it has written.
type seat struct {
	t        testing.TB
	child    *Child
	terminal *Terminal

	mu   sync.Mutex
	more sync.Cond
	text string
}

// room is a sandbox as the daemon makes it, with the plan of a request that asks for nothing else than a terminal.
type room struct {
	t    testing.TB
	s    *Sandbox
	plan enforcer.Plan
}

func aRoom(t testing.TB) *room {
	t.Helper()
	s, _, plan := realSandbox(t, 2)
	return &room{t, s, plan}
}

// sit starts a command at a terminal in a sandbox, held at its gate until its verdict holds.
func (r *room) sit(argv ...string) *seat {
	t, s := r.t, r.s
	t.Helper()
	plan, err := r.plan.AtTerminal(s.config.Host, []string{"terminal.private"})
	if err != nil {
		t.Fatal(err)
	}
	at := &seat{t: t}
	at.more.L = &at.mu
	if at.terminal, err = NewTerminal(s.config.Host.Terminals, 91, 31); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.terminal.Close)
	inv := testInvocation("")
	inv.Argv, inv.Env = argv, append(inv.Env, `PS1=<\#>`)
	if at.child, err = s.Prepare(context.Background(), plan, inv, IO{Unkept: true, Terminal: at.terminal, Tee: at.write}); err != nil {
		t.Fatal(err)
	}
	state, err := enforcer.Observe(at.child.PID(), s.config.Host)
	if err == nil {
		state.Terminal, err = enforcer.ObserveTerminal(at.child.PID(), s.config.Host)
	}
	if err != nil {
		t.Fatal(err)
	}
	if verdict := enforcer.Check(plan, at.child.Expect(), state); !verdict.Held() {
		t.Fatalf("%+v", verdict.Failed())
	}
	return at
}

func (at *seat) write(_ string, chunk []byte) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.text += string(chunk)
	at.more.Broadcast()
}

// until waits for a text to come.
func (at *seat) until(text string) {
	at.t.Helper()
	stop := time.AfterFunc(20*time.Second, func() { at.write("", []byte("\n-- nothing more came --")) })
	defer stop.Stop()
	at.mu.Lock()
	defer at.mu.Unlock()
	for !strings.Contains(at.text, text) {
		if strings.Contains(at.text, "-- nothing more came --") {
			at.t.Fatalf("%q isn't in %q", text, at.text)
		}
		at.more.Wait()
	}
}

// typed types.
func (at *seat) typed(text string) {
	at.t.Helper()
	if _, err := at.terminal.Write([]byte(text)); err != nil {
		at.t.Errorf("%q: %v", text, err)
	}
}

// start lets the shell go on.
func (at *seat) start() *seat {
	at.t.Helper()
	if err := at.child.Release(); err != nil {
		at.t.Fatal(err)
	}
	if err := at.child.Started(context.Background()); err != nil {
		at.t.Fatal(err)
	}
	return at
}

// end waits for its end.
func (at *seat) end() Exit {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	exit := at.child.Wait(ctx)
	if !exit.TreeEmpty || exit.Stdout.Incomplete {
		at.t.Errorf("%+v, %q", exit, at.text)
	}
	return exit
}

func bash(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("no bash: job control is tried with it")
	}
}

// A terminal is the child's, and a real one: its size, the keys that interrupt, jobs, and the status at its end.
func TestTerminal(t *testing.T) {
	bash(t)
	both(t, func(t *testing.T) {
		at := aRoom(t).sit("bash", "--norc", "--noprofile").start()
		line := 0
		typed := func(text string) { // at its prompt: what is typed while a job ends may be dropped, as on every terminal
			line++
			at.until(fmt.Sprintf("<%d>", line))
			at.typed(text + "\n")
		}
		typed("stty size; test -t 0 && test -t 1 && test -t 2 && echo all-$((1+2)); cut -d' ' -f7 /proc/$$/stat | sed s/^[1-9]/tty-/")
		at.until("31 91\r\n")
		at.until("all-3")
		at.until("tty-")
		if err := at.terminal.Resize(123, 45); err != nil {
			t.Error(err)
		}
		typed("stty size")
		at.until("45 123\r\n")
		typed(`sh -c 'trap "stty size; exit" WINCH; echo waits-$((1+4)); while :; do sleep 0.05; done'`)
		at.until("waits-5")
		if err := at.terminal.Resize(124, 46); err != nil {
			t.Error(err)
		}
		at.until("46 124\r\n")
		waits := func(number int) { // a program that catches no signal, and says that it is there
			typed(fmt.Sprintf(`awk 'BEGIN { printf "waits-%%d\n", %d+1; fflush(); getline }'`, number-1))
			at.until(fmt.Sprintf("waits-%d\r\n", number))
		}
		waits(11)
		at.typed("\x03")
		typed("echo status-$?")
		at.until("status-130")
		waits(12)
		if err := at.terminal.Signal(unix.SIGINT); err != nil {
			t.Error(err)
		}
		typed("echo signal-$?")
		at.until("signal-130")
		waits(13)
		at.typed("\x1a")
		at.until("Stopped")
		typed("jobs; disown -a; sleep 1000 & exit 7") // one is stopped, one runs: neither outlives it
		if exit := at.end(); exit.Status.ExitStatus() != 7 {
			t.Errorf("status %d: %q", exit.Status.ExitStatus(), at.text)
		}
	})
}

// All of what was written before the end arrives, at the pace of who takes it.
func TestTerminalLosesNothing(t *testing.T) {
	at := aRoom(t).sit("sh", "-c", "stty -opost; yes 0123456789abcdef | head -c 1000000; printf end").start()
	if exit := at.end(); exit.Stdout.Total != 1000003 || len(at.text) != 1000003 || !strings.HasSuffix(at.text, "end") {
		t.Errorf("%d bytes, %d here", exit.Stdout.Total, len(at.text))
	}
}

// Killed, nothing is left, and who types finds nobody.
func TestTerminalOfAKilledTree(t *testing.T) {
	at := aRoom(t).sit("sh", "-c", "trap '' HUP INT TERM; echo there; sleep 1000 & sleep 1000").start()
	at.until("there")
	at.child.Kill()
	if exit := at.end(); !exit.Killed {
		t.Errorf("%+v", exit)
	}
	if _, err := at.terminal.Write([]byte("x")); err == nil {
		t.Error("written to nobody")
	}
}

// No terminal is reached but one's own: not by a name, not by another session's process, not by what a pseudo-terminal's other end can be asked.
func TestTerminalIsAlone(t *testing.T) {
	r := aRoom(t)
	one := r.sit("sh", "-c", "echo there; sleep 1000").start()
	one.until("there")
	pid := strings.TrimSpace(statusLine(t, one.child.PID(), "NSpid"))
	pid = pid[strings.LastIndexByte(pid, '\t')+1:]
	two := r.sit("sh", "-c", `for f in /dev/pts/0 /dev/ptmx /dev/pts/ptmx /dev/tty /proc/`+pid+`/fd/0 /proc/`+pid+`/fd/1; do
		(exec 3<>$f) 2>/dev/null && echo "opened $f"
		(exec 3>$f) 2>/dev/null && echo "wrote $f"
	done; ls /dev/pts /proc/`+pid+` 2>&1; readlink /proc/self/fd/0; echo done`).start()
	two.end()
	if strings.Contains(two.text, "opened") || strings.Contains(two.text, "wrote") || !strings.Contains(two.text, "done") {
		t.Errorf("%q", two.text)
	}
	if r.s.config.Host.Terminals && !strings.Contains(two.text, "\n/0\r\ndone") { // nothing of the host's is in its name
		t.Errorf("%q", two.text)
	}
	one.child.Kill()
	one.end()
	if strings.Contains(one.text, "done") {
		t.Errorf("%q", one.text)
	}
}

// A plan and what is given must agree, and a terminal's streams are all that its child has.
func TestTerminalMustBePlanned(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	plan := testPlan(t, s)
	terminal, err := NewTerminal(s.config.Host.Terminals, 80, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	planned := plan
	planned.Terminal = true
	for name, row := range map[string]struct {
		plan enforcer.Plan
		with IO
	}{
		"not planned": {plan, IO{Terminal: terminal, Unkept: true}},
		"not given":   {planned, IO{}},
		"kept":        {planned, IO{Terminal: terminal, OutputBytes: 1}},
		"left":        {planned, IO{Terminal: terminal, Unkept: true, Leave: true}},
		"stdin":       {planned, IO{Terminal: terminal, Unkept: true, Stdin: []byte("x")}},
	} {
		if c, err := s.Prepare(context.Background(), row.plan, testInvocation("true"), row.with); !errors.Is(err, ErrTable) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				c.Abort()
			}
		}
	}
}
