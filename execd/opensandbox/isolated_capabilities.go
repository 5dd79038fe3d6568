package opensandbox

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// wireCapabilities says what confines a session, by what was read back of a command just now.
type wireCapabilities struct {
	Available bool           `json:"available"`
	Isolator  string         `json:"isolator,omitempty"`
	Message   string         `json:"message,omitempty"`
	Setpriv   bool           `json:"setpriv_available"`
	UserNS    bool           `json:"userns_available"`
	Commit    bool           `json:"commit_supported"`
	Diff      bool           `json:"diff_supported"`
	Hardening *wireHardening `json:"hardening,omitzero"`
}

type wireHardening struct {
	InitMode     string    `json:"init_mode"`
	SignalShield bool      `json:"signal_shield"`
	CapDrop      wireLayer `json:"cap_drop"`
	Seccomp      wireLayer `json:"seccomp"`
	Landlock     wireLayer `json:"landlock"`
	EBPF         wireLayer `json:"ebpf"`
}

type wireLayer struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// getCapabilities runs the smallest command there is, confined as all are, and tells what the kernel said of it at its gate.
func (f *Facade) getCapabilities(x *exchange) error {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	leave, err := f.service.Admit(ctx)
	if err != nil {
		return notAdmitted(err)
	}
	defer leave()
	r := f.request(x.box, []string{"true"}, "", time.Minute, nil)
	r.Command.LeaveChildren = false
	reply := f.service.Exec(ctx, r, execd.Options{Rows: true})
	if reply.Outcome != execd.OutcomeOK || !reply.Verdict.Held {
		message := reply.Message
		if len(reply.Reasons) > 0 {
			message = reasonsText(reply.Reasons)
		}
		x.answer(http.StatusOK, wireCapabilities{Message: "a command of the sandbox didn't run: " + string(reply.Outcome) + ": " + message})
		return nil
	}
	x.answer(http.StatusOK, wireCapabilities{
		Available: true, Isolator: "sandboxd", Setpriv: true,
		Hardening: &wireHardening{
			InitMode:     "pid1", // each sandbox has its launcher for that, and no command is it
			SignalShield: layer(reply.Verdict.Rows, "signals", "namespaces.pid", "namespace.pid", "landlock.scope.signal", "uid").State == "active",
			CapDrop:      layer(reply.Verdict.Rows, "capabilities", "cap"),
			Seccomp:      layer(reply.Verdict.Rows, "seccomp", "seccomp"),
			Landlock:     layer(reply.Verdict.Rows, "Landlock", "landlock"),
			EBPF:         wireLayer{"unsupported", "not used: what is confined is confined by the mechanisms above"},
		},
	})
	return nil
}

// layer is active where rows about it were read back and all of them hold.
func layer(rows []policy.Row, name string, prefixes ...string) wireLayer {
	found, held := false, true
	for _, row := range rows {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(row.Control, prefix) }) {
			found, held = true, held && row.Held
		}
	}
	switch {
	case !found:
		return wireLayer{"unsupported", "nothing about " + name + " was read back"}
	case !held:
		return wireLayer{"degraded", "what was read back of " + name + " isn't as planned"}
	}
	return wireLayer{State: "active"}
}
