package execd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// fail ends a walk on which an arrow failed: nothing runs on, the record is written, and the reply has the outcome of the error.
func (w *walk) fail(err error) Reply {
	outcome := w.outcomeOf(err)
	exit := w.end()
	reply := w.reply(outcome)
	reply.TreeEmpty = exit == nil || exit.TreeEmpty
	if !w.released {
		exit = nil // nothing of it is the program's
	}
	reply.Message = sentence(err)
	if outcome == OutcomeNotStarted {
		reply.Message, reply.Errno = w.whyNotStarted(err), errnoName(err)
		var step *runner.StepError
		reply.badDirectory = errors.As(err, &step) && step.Step == stepChdir
	}
	var denied *deniedError
	if errors.As(err, &denied) {
		reply.Reasons = denied.reasons
		reply.Message = ""
	}
	if exit != nil {
		w.output(&reply, *exit)
	}
	if outcome == OutcomeNotStarted {
		reply.DurationSeconds = 0 // the time was the kernel's
	}
	return w.answer(reply, exit)
}

// finish ends a walk whose child has ended.
func (w *walk) finish(exit runner.Exit) Reply {
	fault("walk.finish")
	e := ending{known: exit.Known, status: exit.Status, killed: w.killedBy(exit), oomKills: exit.OOMKills, overCPU: w.overCPU(exit), late: w.hadItsTime(exit)}
	reply := w.reply(e.outcome())
	reply.ExitCode, reply.Signal = e.exitCode(), e.signal()
	reply.TimedOut = reply.Outcome == OutcomeTimeout
	reply.TreeEmpty, reply.TreeLeft = exit.TreeEmpty, exit.Left
	if w.request.Action == policy.ActionRun {
		reply.ExitCode = reply.runExitCode()
	}
	switch reply.Outcome {
	case OutcomeTimeout:
		if e.killed != causeDeadline && !e.late {
			reply.Message = cpuMessage(w.decision.Effective.Limits.CPUSeconds)
		}
	case OutcomeOOM:
		if e.killed == causeMemory {
			reply.Message = fmt.Sprintf("its tree held more than the %d bytes of limits.memoryBytes; counted and killed by sandboxd, since the kernel has no memory controller here",
				w.plan.Memory)
		}
	case OutcomeMismatch:
		reply.ExitCode, reply.Signal = nil, nil
		reply.Message = sentence(w.mismatch)
	case OutcomeInfra:
		if w.unstarted != nil {
			reply.Message = sentence(w.unstarted)
			break
		}
		if exit.Uncounted {
			reply.Message = "killed, since the processor time or memory that its limits bound could no longer be counted"
			break
		}
		reply.Message = "the kernel gave no exit status: worker or sandbox ended first"
	}
	w.output(&reply, exit)
	w.lastWords(&reply)
	w.returnValue(&reply, exit)
	return w.answer(reply, &exit)
}

// killedBy says why we killed the tree while its leader was alive, if we did.
func (w *walk) killedBy(exit runner.Exit) cause {
	switch {
	case w.mismatch != nil:
		return causeMismatch
	case exit.Known && !exit.Killed:
		return causeNone
	case exit.CPULimit: // perhaps before execve
		return causeCPU
	case exit.MemoryLimit:
		return causeMemory
	case w.unstarted != nil, exit.Uncounted:
		return causeFailure
	case exit.OutputLimit:
		return causeOutputLimit
	case errors.Is(context.Cause(w.clock), errDeadline):
		return causeDeadline
	case w.clock.Err() != nil, w.interrupted.Load():
		return causeCaller
	}
	return causeNone
}

// tickSlack is by how much the count that a limit goes by may be ahead of the one that is read at the end: RLIMIT_CPU goes by ticks.
const tickSlack = 0.1

// overCPU says whether the processor time of limits.cpuSeconds is used up. Where the tree isn't counted, the leader's own is all that is known.
func (w *walk) overCPU(exit runner.Exit) bool {
	limit := w.decision.Effective.Limits.CPUSeconds
	return limit > 0 && cpuSeconds(exit) >= limit*(1-tickSlack)
}

func cpuMessage(limit float64) string {
	return fmt.Sprintf("its tree has used the %g s of processor time that limits.cpuSeconds gives", limit)
}

// cpuSeconds is what the tree has used by its cgroup's count where there is one, else what the leader and the children that it waited for have.
func cpuSeconds(exit runner.Exit) float64 {
	return max(exit.CPUTime.Seconds(), seconds(exit.Rusage.Utime)+seconds(exit.Rusage.Stime)-exit.CPUBefore.Seconds(), 0)
}

// reply has what every reply of this walk has.
func (w *walk) reply(outcome Outcome) Reply {
	empty := ""
	return Reply{
		ID: w.id, Outcome: outcome, TreeEmpty: true, Stdout: &empty, Stderr: &empty,
		Interpreter: w.interpreter(),
		Decision:    judgmentOf(w.decision), Verdict: proofOf(w.verdict, w.verdictDigest(), w.options.Rows), AuditSequence: w.sequence,
	}
}

// interpreter is how that of a run was started, if it was released.
func (w *walk) interpreter() string {
	switch {
	case w.request.Action != policy.ActionRun || !w.released || w.options.context != nil || w.options.cellOf != nil:
		return ""
	case w.waiter != nil:
		return InterpreterWarm
	}
	return InterpreterCold
}

// output puts in what the child wrote and used.
func (w *walk) output(reply *Reply, exit runner.Exit) {
	reply.Stdout, reply.StdoutBase64 = asText(exit.Stdout.Data, exit.Stdout.Truncated)
	reply.Stderr, reply.StderrBase64 = asText(exit.Stderr.Data, exit.Stderr.Truncated)
	reply.Truncated = Truncated{Stdout: exit.Stdout.Truncated, Stderr: exit.Stderr.Truncated}
	reply.Bytes = Bytes{Stdout: exit.Stdout.Total, Stderr: exit.Stderr.Total}
	reply.OOMKills = exit.OOMKills
	w.calls(reply, exit)
	reply.DurationSeconds = exit.Duration.Seconds()
	reply.Usage = Usage{
		CPUSeconds:  cpuSeconds(exit),
		MaxRSSBytes: exit.Rusage.Maxrss << 10, // getrusage(2): kilobytes
	}
}

func seconds(t syscall.Timeval) float64 {
	return (time.Duration(t.Sec)*time.Second + time.Duration(t.Usec)*time.Microsecond).Seconds()
}

// answer writes the last record of the walk and completes the reply. The sequence number is that of the record that has the proof.
func (w *walk) answer(reply Reply, exit *runner.Exit) Reply {
	w.options.transfer.settle(reply.TreeEmpty)
	last := w.lastRecord(reply, exit)
	if w.options.transfer != nil {
		w.fileRecord(&last, reply)
	}
	if w.sequence != 0 {
		w.note(last)
	} else if sequence, err := w.append(last); err == nil {
		reply.AuditSequence = sequence
	} else {
		w.service.logger.Error("audit", "exec", w.id, "type", last.Type, "error", err)
	}
	fault("walk.answer")
	if reply.Interpreter != "" {
		w.service.metrics.runs.WithLabelValues(reply.Interpreter).Inc()
	}
	w.service.metrics.finished(w.request.Action, reply.Outcome, time.Since(w.began))
	return reply
}
