package execd

import (
	"syscall"
	"testing"
)

// The layout of a wait status (wait(2)): exit code in the second byte, signal in the first, 0x7f with a signal above: stopped.
func exited(code int) syscall.WaitStatus                { return syscall.WaitStatus(code << 8) }
func killedBy(signal syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(signal) }

func TestOutcome(t *testing.T) {
	const none = -1
	for _, row := range []struct {
		name         string
		end          ending
		want         Outcome
		code, signal int
		// status is what a command line exits with.
		status int
	}{
		{"exit 0", ending{known: true, status: exited(0)}, OutcomeOK, 0, none, 0},
		{"exit 1", ending{known: true, status: exited(1)}, OutcomeError, 1, none, 1},
		{"exit 124 by itself is no timeout", ending{known: true, status: exited(124)}, OutcomeError, 124, none, 124},
		{"exit 137 by itself is no OOM", ending{known: true, status: exited(137)}, OutcomeError, 137, none, 137},
		{"exit 255", ending{known: true, status: exited(255)}, OutcomeError, 255, none, 255},
		{"a signal of its own", ending{known: true, status: killedBy(syscall.SIGSEGV)}, OutcomeSignaled, none, 11, 139},
		{"with a core dump", ending{known: true, status: killedBy(syscall.SIGSEGV) | 0x80}, OutcomeSignaled, none, 11, 139},
		{"SIGKILL by itself", ending{known: true, status: killedBy(syscall.SIGKILL)}, OutcomeSignaled, none, 9, 137},
		{"SIGSYS of the filter", ending{known: true, status: killedBy(syscall.SIGSYS)}, OutcomeSignaled, none, 31, 159},
		{"our clock", ending{known: true, status: killedBy(syscall.SIGKILL), killed: causeDeadline}, OutcomeTimeout, none, 9, 124},
		{"it ended before our clock's kill", ending{known: true, status: exited(0), killed: causeDeadline}, OutcomeOK, 0, none, 0},
		{"it failed before our clock's kill", ending{known: true, status: exited(3), killed: causeDeadline}, OutcomeError, 3, none, 3},
		{"it crashed before our clock's kill", ending{known: true, status: killedBy(syscall.SIGABRT), killed: causeDeadline}, OutcomeSignaled, none, 6, 134},
		{"our clock, no status", ending{killed: causeDeadline}, OutcomeTimeout, none, none, 124},
		{"the caller", ending{known: true, status: killedBy(syscall.SIGKILL), killed: causeCaller}, OutcomeCancelled, none, 9, 130},
		{"the caller, no status", ending{killed: causeCaller}, OutcomeCancelled, none, none, 130},
		{"too much output", ending{known: true, status: killedBy(syscall.SIGKILL), killed: causeOutputLimit}, OutcomeOutputLimit, none, 9, 125},
		{"out of memory", ending{known: true, status: killedBy(syscall.SIGKILL), oomKills: 1}, OutcomeOOM, none, 9, 137},
		{"a child was out of memory, the leader lived", ending{known: true, status: exited(0), oomKills: 1}, OutcomeOK, 0, none, 0},
		{"a child was out of memory, the leader failed", ending{known: true, status: exited(1), oomKills: 2}, OutcomeError, 1, none, 1},
		{"out of memory before our clock", ending{known: true, status: killedBy(syscall.SIGKILL), oomKills: 1, killed: causeDeadline}, OutcomeTimeout, none, 9, 124},
		{"processor time", ending{known: true, status: killedBy(syscall.SIGKILL), killed: causeCPU, overCPU: true}, OutcomeTimeout, none, 9, 124},
		{"processor time, by the kernel", ending{known: true, status: killedBy(syscall.SIGKILL), overCPU: true}, OutcomeTimeout, none, 9, 124},
		{"out of memory with its processor time used up", ending{known: true, status: killedBy(syscall.SIGKILL), oomKills: 1, overCPU: true}, OutcomeOOM, none, 9, 137},
		{"it ended with its processor time used up", ending{known: true, status: exited(0), overCPU: true}, OutcomeOK, 0, none, 0},
		{"it ended before the kill for processor time", ending{known: true, status: exited(2), killed: causeCPU, overCPU: true}, OutcomeError, 2, none, 2},
		{"the caller, with its processor time used up", ending{known: true, status: killedBy(syscall.SIGKILL), killed: causeCaller, overCPU: true}, OutcomeCancelled, none, 9, 130},
		{"mismatch after execve", ending{known: true, status: exited(0), killed: causeMismatch}, OutcomeMismatch, 0, none, 125},
		{"our failure", ending{known: true, status: killedBy(syscall.SIGKILL), killed: causeFailure}, OutcomeInfra, none, 9, 125},
		{"it ended before our failure", ending{known: true, status: killedBy(syscall.SIGTERM), killed: causeFailure}, OutcomeSignaled, none, 15, 143},
		{"no status", ending{}, OutcomeInfra, none, none, 125},
		{"no status, OOM in the tree", ending{oomKills: 1}, OutcomeInfra, none, none, 125},
		{"stopped is no end", ending{known: true, status: 0x137f}, OutcomeInfra, none, none, 125},
		{"continued is no end", ending{known: true, status: 0xffff}, OutcomeInfra, none, none, 125},
	} {
		t.Run(row.name, func(t *testing.T) {
			reply := Reply{Outcome: row.end.outcome(), ExitCode: row.end.exitCode(), Signal: row.end.signal()}
			if reply.Outcome != row.want {
				t.Errorf("outcome %s, want %s", reply.Outcome, row.want)
			}
			for _, number := range []struct {
				what string
				got  *int
				want int
			}{{"exit code", reply.ExitCode, row.code}, {"signal", reply.Signal, row.signal}} {
				got := none
				if number.got != nil {
					got = *number.got
				}
				if got != number.want {
					t.Errorf("%s %d, want %d", number.what, got, number.want)
				}
			}
			if got := reply.ExitStatus(); got != row.status {
				t.Errorf("exit status %d, want %d", got, row.status)
			}
		})
	}
}

func TestExitStatusWithoutAnEnd(t *testing.T) {
	for _, row := range []struct {
		reply Reply
		want  int
	}{
		{Reply{}, 125},
		{Reply{Outcome: OutcomeOK}, 125}, // ok without a code can't be: never 0
		{Reply{Outcome: OutcomeDenied}, 125},
		{Reply{Outcome: OutcomeMismatch}, 125},
		{Reply{Outcome: OutcomeInfra}, 125},
		{Reply{Outcome: OutcomeOutputLimit}, 125},
		{Reply{Outcome: OutcomeNotStarted, Errno: "ENOENT"}, 127},
		{Reply{Outcome: OutcomeNotStarted, Errno: "EACCES"}, 126},
		{Reply{Outcome: OutcomeNotStarted}, 126},
	} {
		if got := row.reply.ExitStatus(); got != row.want {
			t.Errorf("%s %s: %d, want %d", row.reply.Outcome, row.reply.Errno, got, row.want)
		}
	}
}
