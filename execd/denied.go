package execd

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/runner"
)

// calls puts in what the filter's listener heard of.
func (w *walk) calls(reply *Reply, exit runner.Exit) {
	if w.options.Observe != nil {
		w.options.Observe(w.observed(exit.Calls))
		return
	}
	for _, call := range exit.Calls {
		reply.DeniedCalls = append(reply.DeniedCalls, denied(w.service.host, call))
	}
	reply.DeniedCallsCut = exit.CallsCut
}

func (w *walk) observed(calls []runner.Call) Observed {
	o := Observed{Profile: *w.decision.Effective.SecurityContext.SeccompProfile}
	for _, call := range calls {
		if name := seccomp.Name(w.service.host.Arch, call.Nr); name != "" {
			o.Calls = append(o.Calls, name)
		}
	}
	slices.Sort(o.Calls)
	return o
}

// denied names a refused call and what would allow it.
func denied(h enforcer.Host, call runner.Call) audit.DeniedCall {
	name := seccomp.Name(h.Arch, call.Nr)
	named := audit.DeniedCall{Call: name, Nr: call.Nr, Count: call.Count, Errno: unix.ErrnoName(call.Errno)}
	if name == "" {
		named.Call = fmt.Sprintf("syscall_%d", call.Nr)
	}
	for i, value := range call.Args {
		if seccomp.Low32(name, i) {
			named.Args = append(named.Args, audit.DeniedArg{Index: i, Value: value & 0xffffffff})
		}
	}
	profile, ever := h.Allowing(call.Nr, call.Args)
	named.Profile = profile
	group, grouped := seccomp.GroupOf(name)
	switch {
	case profile != nil && profile.LocalhostProfile != nil:
		named.Remedy = fmt.Sprintf("seccompProfile Localhost %q allows it, where policy lists it", *profile.LocalhostProfile)
	case profile != nil:
		named.Remedy = "seccompProfile RuntimeDefault allows it"
	case ever:
		named.Remedy = fmt.Sprintf("a Localhost profile of one's own that allows %s; sandboxd profile show default prints one to begin with", named.Call)
	case grouped:
		named.Remedy = fmt.Sprintf("none: sandboxd refuses it under every profile, since it %s", group.Why)
	default:
		named.Remedy = "none: sandboxd refuses it under every profile"
	}
	return named
}
