package policy

import "encoding/json/jsontext"

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
// Exactly one of Command (exec) and Program (run) is set.
type Request struct {
	Action Action `json:"action"`
	// Caller is filled in by the daemon from the kernel's word, never from the wire.
	Caller Caller `json:"caller"`
	// Sandbox is the id of a sandbox that exists, or empty: a fresh one, used for this request alone.
	Sandbox         string          `json:"sandbox"`
	SecurityContext SecurityContext `json:"securityContext"`
	Network         NetworkSpec     `json:"network"`
	Command         Command         `json:"command"`
	Program         Program         `json:"program"`
	Limits          Limits          `json:"limits"`
}

// Caller is who asks: the peer credentials of the socket (SO_PEERCRED), or this process when there is no daemon.
type Caller struct {
	// UID and GID are the peer's effective ids in the daemon's user namespace.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// PID is 0 when the peer lives in a PID namespace that the daemon can't see into.
	PID int `json:"pid"`
	// Via is how the caller came: "socket" or "cli".
	Via string `json:"via"`
}

// Command is a program with its arguments, as execve(2) takes them.
type Command struct {
	// Argv has at least one element; argv[0] is looked up in the sandbox's PATH unless it has a slash. No NUL, at most 131,071 bytes a string (MAX_ARG_STRLEN less the NUL), at most 1 MiB in all with Env.
	Argv []string `json:"argv"`
	// Env is the whole environment besides PATH, HOME, LANG and TMPDIR, which have safe defaults. Nothing of the daemon's own is passed on.
	Env map[string]string `json:"env"`
	// Cwd is absolute, in the sandbox; empty means /work.
	Cwd string `json:"cwd"`
	// Stdin is what the child reads; then end of file.
	Stdin []byte `json:"stdin"`
}

// Program is source code for an interpreter.
type Program struct {
	// Language is "python".
	Language string `json:"language"`
	// Code is the source text, UTF-8 without NUL.
	Code string `json:"code"`
	// Inputs is any JSON value, handed over as the text that came.
	Inputs jsontext.Value `json:"inputs"`
	// Env and Cwd: as in Command.
	Env map[string]string `json:"env"`
	Cwd string            `json:"cwd"`
}
