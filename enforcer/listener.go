package enforcer

import (
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// Explaining is the plan with a filter whose refusals come by the daemon, so that it can name them. They are refused as without it.
func (p Plan) Explaining(h Host) (Plan, error) {
	if len(p.Seccomp.Program) == 0 {
		return p, nil // it refuses nothing that could be explained
	}
	if err := h.listener("explainDenials"); err != nil {
		return Plan{}, err
	}
	p.Seccomp = p.Seccomp.Explaining()
	return p, nil
}

// explain is Explaining where policy asks for it: what the host lacks then may be accepted.
func (b *builder) explain() error {
	if !b.decision.Effective.ExplainDenials || len(b.plan.Seccomp.Program) == 0 {
		return nil
	}
	if !b.host.SeccompListener {
		message, howTo := b.host.noListener()
		return b.lack(seccompListener, "explainDenials", message, howTo)
	}
	b.plan.Seccomp = b.plan.Seccomp.Explaining()
	return nil
}

// Observing is the plan with a filter whose allowed calls come by the daemon, which takes them down and lets them go on.
func (p Plan) Observing(h Host) (Plan, error) {
	const field = "securityContext.seccompProfile"
	if err := h.listener(field); err != nil {
		return Plan{}, err
	}
	filter, err := p.Seccomp.Observing(h.Arch)
	if err != nil {
		return Plan{}, &RefusedError{Field: field, Message: err.Error(), HowTo: `record under {"type":"RuntimeDefault"}`}
	}
	p.Seccomp = filter
	return p, nil
}

func (h Host) listener(field string) error {
	if h.SeccompListener {
		return nil
	}
	message, howTo := h.noListener()
	return &RefusedError{Field: field, Lack: seccompListener, Message: message, HowTo: howTo}
}

func (h Host) noListener() (message, howTo string) {
	if h.Opaque {
		return "a daemon without CAP_SYS_PTRACE can't take a listener out of a process of another uid", "leave it out, or give the daemon CAP_SYS_PTRACE"
	}
	return noListener, howToListen
}

const (
	seccompListener = "seccomp.listener"
	noListener      = "this kernel can't notify a listener of system calls"
	howToListen     = "leave it out, or use Linux 5.19"
)

// Listener is the link text of a listener's descriptor.
const Listener = "anon_inode:seccomp notify"

// Listens says whether the plan's filter has a listener.
func (p Plan) Listens() bool { return p.Seccomp.Listener != "" }

// Allowing is the tightest of sandboxd's profiles that lets a call through, in Kubernetes' words; nil where none does. ever says whether any profile
// could, which is whether sandboxd itself lets it pass.
func (h Host) Allowing(nr int, args [6]uint64) (profile *policy.SeccompProfile, ever bool) {
	for _, builtin := range seccomp.Builtins() {
		program, err := h.builtin(builtin.Name)
		if err != nil || !program.Allows(h.Arch, nr, args) {
			continue
		}
		if policy.BuiltinProfiles+builtin.Name == policy.ProfileDefault {
			return &policy.SeccompProfile{Type: policy.SeccompRuntimeDefault}, true
		}
		return &policy.SeccompProfile{Type: policy.SeccompLocalhost, LocalhostProfile: new(policy.BuiltinProfiles + builtin.Name)}, true
	}
	all, err := seccomp.Compile(seccomp.Profile{Default: seccomp.Allow}, h.Arch)
	return nil, err == nil && all.Allows(h.Arch, nr, args)
}

// builtin is a compiled profile of sandboxd's; those that plans are made of are the same.
func (h Host) builtin(name string) (seccomp.Program, error) {
	key := filterKey{name: policy.SeccompLocalhost + "/" + policy.BuiltinProfiles + name, arch: h.Arch, kernel: h.Kernel}
	if have, ok := compiled.Load(key); ok {
		return have.(seccomp.Filter).Program, nil
	}
	profile, err := seccomp.Builtin(name, h.Arch, h.Kernel)
	if err != nil {
		return nil, err
	}
	filter, err := seccomp.NewFilter(key.name, profile, h.Arch)
	if err != nil {
		return nil, err
	}
	compiled.Store(key, filter)
	return filter.Program, nil
}
