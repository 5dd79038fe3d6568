package sandboxd

import "github.com/sandboxd/sandboxd/policy"

// Confinement is what a request that starts a program asks for besides it. The zero value asks for nothing: policy's defaults, a sandbox of its own.
type Confinement struct {
	// Sandbox is one that was made by [Client.CreateSandbox]; empty: a fresh one, which is destroyed after. Image is what the root of a fresh one is made
	// from; empty: the host's own system directories.
	Sandbox         string                  `json:"sandbox,omitempty"`
	Image           string                  `json:"image,omitempty"`
	SecurityContext *policy.SecurityContext `json:"securityContext,omitzero"`
	// Network nil: none; in a sandbox that is named: the sandbox's own.
	Network *policy.NetworkSpec `json:"network,omitzero"`
	Limits  policy.Limits       `json:"limits,omitzero"`
	// ExplainDenials names the system calls that were refused ([Reply.DeniedCalls]); each of them takes a little longer then.
	ExplainDenials bool `json:"explainDenials,omitzero"`
	// Rows asks for every row of the verdict, not only for those that failed.
	Rows bool `json:"-"`
}

// ExecRequest is a command.
type ExecRequest struct {
	Confinement
	Command Command `json:"command"`
	// ResultMarker takes the value of the last result-marker line out of stdout.
	ResultMarker bool `json:"resultMarker,omitzero"`
}

// Command is a program with its arguments.
type Command struct {
	// Argv is looked up in the sandbox's PATH unless argv[0] has a slash.
	Argv []string `json:"argv,omitempty"`
	// Env is the environment besides PATH, HOME, LANG and TMPDIR, which have defaults.
	Env map[string]string `json:"env,omitempty"`
	// Cwd is absolute; empty: /work.
	Cwd string `json:"cwd,omitempty"`
	// Stdin is what it reads.
	Stdin []byte `json:"stdinBase64,omitempty"`
	// LeaveChildren leaves the children in a kept sandbox running when the command ends.
	LeaveChildren bool `json:"leaveChildren,omitzero"`
	// ReadOnly has the program and all that it starts write nowhere but to devices, and change no file's mode, owner, times or attributes.
	ReadOnly bool `json:"readOnly,omitzero"`
}

// RunRequest is source code with inputs, and comes back with a value. docs/run.md has what each language may rely on.
type RunRequest struct {
	Confinement
	Code string `json:"code"`
	// Language is "python" unless it is given, "bash" or "node".
	Language string `json:"language,omitempty"`
	// Inputs are anything that encoding/json/v2 can write; a jsontext.Value goes as it is. Nil: {}.
	Inputs any               `json:"inputs,omitzero"`
	Env    map[string]string `json:"env,omitempty"`
	Cwd    string            `json:"cwd,omitempty"`
	// Outputs asks for the content of the files that are left in outputs/; nil: they are listed.
	Outputs *OutputsRequest `json:"outputs,omitzero"`
}

// OutputsRequest says how much of files the reply may carry: at most 64 MiB together.
type OutputsRequest struct {
	InlineBytes int64 `json:"inlineBytes"`
}
