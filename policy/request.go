package policy

import (
	"maps"
	"slices"
	"strings"
)

// Action is what a caller asks sandboxd to do.
type Action string

// The actions. Only exec and run start a process.
const (
	ActionExec    Action = "exec"
	ActionRun     Action = "run"
	ActionNetwork Action = "network"
	ActionFile    Action = "file"
	ActionSandbox Action = "sandbox"
)

// Request is what a caller asks, whole: it is what policy judges and what the record's request digest covers.
// Exactly one of Command (exec), Program (run) and File (file) is set, none for a sandbox.
type Request struct {
	Action Action `json:"action"`
	// Caller is filled in by the daemon from the kernel's word, never from the wire.
	Caller Caller `json:"caller"`
	// Sandbox is the id of a sandbox that exists, or empty: a fresh one, used for this request alone.
	Sandbox string `json:"sandbox"`
	// Image is what the sandbox's root is made from: that of a fresh one, or of the one that is named.
	Image           Image           `json:"image,omitzero"`
	SecurityContext SecurityContext `json:"securityContext"`
	Network         NetworkSpec     `json:"network"`
	// NetworkInherited says that nothing was said of the network and a sandbox was named: that sandbox's is meant. Who knows the sandbox fills Network in.
	NetworkInherited bool    `json:"-"`
	Command          Command `json:"command"`
	Program          Program `json:"program"`
	File             File    `json:"file,omitzero"`
	Limits           Limits  `json:"limits"`
}

// longestSandboxID bounds the id of a sandbox: letters, digits, '-', '_' and '.'.
const longestSandboxID = 128

// Validate checks a Request that didn't come through a parser, such as one made from a command line, by the same rules. Parsed ones have
// passed it. Network targets must be canonical already ([NetworkSpec.Defaulted]).
func (r Request) Validate() error {
	if fault := checkSandbox("sandbox", r.Sandbox); fault != nil {
		return fault
	}
	if r.Image.Name != "" {
		if fault := checkImage("image", r.Image.Name); fault != nil {
			return fault
		}
	}
	switch r.Action {
	case ActionExec:
		if fault := r.checkCommand(); fault != nil {
			return fault
		}
	case ActionRun:
		if fault := r.Program.check(""); fault != nil {
			return fault
		}
	case ActionFile:
		if r.Sandbox == "" {
			return faultf("sandbox", "missing: a file is in a sandbox that exists")
		}
		if fault := r.File.check("file"); fault != nil {
			return fault
		}
	default:
		fault := checkEnum("action", string(r.Action), []string{string(ActionExec), string(ActionFile), string(ActionRun)})
		return orNil(fault)
	}
	if fault := r.SecurityContext.check("securityContext"); fault != nil {
		return fault
	}
	if fault := r.Network.check("network"); fault != nil {
		return fault
	}
	return orNil(r.Limits.check("limits"))
}

// checkCommand looks at the command of an exec.
func (r Request) checkCommand() *FieldError {
	if r.Command.LeaveChildren && r.Sandbox == "" {
		return faultf("command.leaveChildren", "a sandbox for one exec ends with it; name a sandbox that exists")
	}
	return r.Command.check("command")
}

func checkSandbox(field, id string) *FieldError {
	if len(id) > longestSandboxID {
		return faultf(field, "%d bytes, at most %d", len(id), longestSandboxID)
	}
	bad := strings.IndexFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if bad >= 0 {
		return faultf(field, "%s isn't the id of a sandbox", quote(id))
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
