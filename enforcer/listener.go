package enforcer

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
	return &RefusedError{Field: field, Lack: seccompListener, Message: "this kernel can't notify a listener of system calls", HowTo: "leave it out, or use Linux 5.19"}
}

const seccompListener = "seccomp.listener"

// Listener is the link text of a listener's descriptor.
const Listener = "anon_inode:seccomp notify"

// Listens says whether the plan's filter has a listener.
func (p Plan) Listens() bool { return p.Seccomp.Listener != "" }
