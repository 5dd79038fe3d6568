package execd

import (
	"syscall"
)

// Outcome is the one word that says how an exec ended.
type Outcome string

// The outcomes. No two can be confused: user code that exits 124 or 137 by itself is OutcomeError, not a timeout or an OOM.
const (
	OutcomeOK          Outcome = "ok"           // exit 0
	OutcomeError       Outcome = "error"        // exit n ≠ 0
	OutcomeSignaled    Outcome = "signaled"     // died by a signal that we didn't send
	OutcomeTimeout     Outcome = "timeout"      // our wall clock, or the processor time of limits.cpuSeconds
	OutcomeOOM         Outcome = "oom"          // the kernel killed for memory; where it can't and policy accepts that, we did, by our count
	OutcomeOutputLimit Outcome = "output_limit" // killed since its output passed the cap and policy says kill
	OutcomeDenied      Outcome = "denied"       // policy said no, or this host can't hold it; nothing ran
	OutcomeMismatch    Outcome = "mismatch"     // read-back failed
	OutcomeNotStarted  Outcome = "not_started"  // the program could not be executed: errno
	OutcomeCancelled   Outcome = "cancelled"    // the caller went away or asked
	OutcomeInfra       Outcome = "infra"        // we failed
)

// Outcomes are all of them, in the order of DESIGN §8; metrics use them as the only values of a label.
var Outcomes = []Outcome{
	OutcomeOK, OutcomeError, OutcomeSignaled, OutcomeTimeout, OutcomeOOM, OutcomeOutputLimit,
	OutcomeDenied, OutcomeMismatch, OutcomeNotStarted, OutcomeCancelled, OutcomeInfra,
}

// cause is why we killed a tree; the zero value says that we didn't.
type cause string

const (
	causeNone        cause = ""
	causeDeadline    cause = "deadline"
	causeCPU         cause = "processor time"
	causeMemory      cause = "memory"
	causeCaller      cause = "caller"
	causeOutputLimit cause = "output limit"
	causeMismatch    cause = "mismatch"
	causeFailure     cause = "failure"
)

// ending is everything that the outcome of a released exec depends on.
type ending struct {
	known    bool // the kernel gave a wait status
	status   syscall.WaitStatus
	killed   cause
	oomKills int64
	// overCPU says that the processor time of limits.cpuSeconds was used up, whoever killed.
	overCPU bool
	// late says that the leader was alive when its time was over, and had a grace.
	late bool
}

// outcome names how a released exec ended.
//
// A mismatch after execve is one whatever the process did in the meantime. Else the kernel's word counts first: a process that had exited
// before our kill reached it ended by itself, also at its deadline. Only a death by SIGKILL can be ours or the OOM killer's. A missing status
// is never a success: with a kill of ours it has the kill's name, without one it is infra.
func (e ending) outcome() Outcome {
	switch {
	case e.killed == causeMismatch:
		return OutcomeMismatch
	case e.late && (e.killed == causeNone || e.killed == causeDeadline):
		return OutcomeTimeout
	case e.known && e.status.Exited() && e.status.ExitStatus() == 0:
		return OutcomeOK
	case e.known && e.status.Exited():
		return OutcomeError
	case e.known && !e.status.Signaled():
		return OutcomeInfra // stopped or continued: not an end
	case e.known && e.status.Signal() != syscall.SIGKILL:
		return OutcomeSignaled
	}
	switch e.killed {
	case causeDeadline, causeCPU:
		return OutcomeTimeout
	case causeMemory:
		return OutcomeOOM
	case causeCaller:
		return OutcomeCancelled
	case causeOutputLimit:
		return OutcomeOutputLimit
	case causeFailure:
		return OutcomeInfra
	}
	switch {
	case !e.known:
		return OutcomeInfra
	case e.oomKills > 0:
		return OutcomeOOM
	case e.overCPU: // RLIMIT_CPU was first
		return OutcomeTimeout
	default:
		return OutcomeSignaled
	}
}

// exitCode is the status that the leader exited with, nil when it didn't exit.
func (e ending) exitCode() *int {
	if !e.known || !e.status.Exited() {
		return nil
	}
	code := e.status.ExitStatus()
	return &code
}

// signal is the number of the signal that the leader died of, nil when it didn't.
func (e ending) signal() *int {
	if !e.known || !e.status.Signaled() {
		return nil
	}
	number := int(e.status.Signal())
	return &number
}
