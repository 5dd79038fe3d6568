package execd

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// mostDeniedLines bounds how many refused calls are named on stderr; the reply has all.
const mostDeniedLines = 16

// lastWords writes under the stderr of a run what its program could not say itself: that it, or a process of its tree, was killed for memory, and which
// system calls were refused. Whoever only sees stderr, a model that wrote the program above all, else has a bare 137 or a library's guess at an errno.
//
// A program can write such lines too: outcome, oomKills and deniedCalls of the reply are what counts. They are no part of what the program wrote, so that
// bytes.stderr and the record leave them out.
func (w *walk) lastWords(reply *Reply) {
	if w.request.Action != policy.ActionRun {
		return
	}
	text := strings.Join(lastLines(*reply), "")
	if text == "" {
		return
	}
	written := streamBytes(reply.Stderr, reply.StderrBase64)
	if n := len(written); n > 0 && written[n-1] != '\n' {
		text = "\n" + text
	}
	reply.Stderr, reply.StderrBase64 = asText(append(written, text...), false)
	if w.options.Sink != nil {
		w.options.Sink.Output("stderr", []byte(text))
	}
}

func lastLines(r Reply) (lines []string) {
	say := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf("sandboxd: "+format+"\n", args...))
	}
	switch {
	case r.Outcome == OutcomeOOM:
		say("OOMKilled: it had no more memory left; limits.memoryBytes gives more")
	case r.OOMKills > 0:
		say("OOMKilled: %d of its processes, and not the first; limits.memoryBytes gives more", r.OOMKills)
	}
	if r.Outcome == OutcomeSignaled && r.Signal != nil && syscall.Signal(*r.Signal) == unix.SIGSYS {
		say("denied: it was ended by SIGSYS, for a system call that the seccomp profile kills for")
	}
	for i, call := range r.DeniedCalls {
		if i == mostDeniedLines {
			say("denied: %d calls more", len(r.DeniedCalls)-i)
			break
		}
		say("denied: %s (%s, %d×); to allow it: %s", callText(call), call.Errno, call.Count, call.Remedy)
	}
	if r.DeniedCallsCut {
		say("denied: more calls than are named or counted")
	}
	return lines
}

// callText is a call as strace would write it, as far as its arguments are known: "socket(AF_VSOCK, 0x1)", "ioctl(…, 0x5412)".
func callText(c audit.DeniedCall) string {
	var args []string
	for _, a := range c.Args {
		for len(args) < a.Index {
			args = append(args, "…")
		}
		name := fmt.Sprintf("%#x", a.Value)
		if family := families[a.Value]; family != "" && c.Call == "socket" && a.Index == 0 {
			name = family
		}
		args = append(args, name)
	}
	return c.Call + "(" + strings.Join(args, ", ") + ")"
}

// families are those of socket(2) that a program may meet on purpose; others are told by number.
var families = map[uint64]string{
	unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6", unix.AF_NETLINK: "AF_NETLINK", unix.AF_PACKET: "AF_PACKET",
	unix.AF_ALG: "AF_ALG", unix.AF_VSOCK: "AF_VSOCK", unix.AF_XDP: "AF_XDP", unix.AF_BLUETOOTH: "AF_BLUETOOTH", unix.AF_CAN: "AF_CAN",
	unix.AF_TIPC: "AF_TIPC", unix.AF_KEY: "AF_KEY", unix.AF_RDS: "AF_RDS",
}
