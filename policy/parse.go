package policy

import (
	"encoding/json/jsontext"
	"strings"
)

// ExecOptions is how the answer is given. Policy doesn't judge it.
type ExecOptions struct {
	// ResultMarker takes the last result-marker line out of stdout and answers its value; exec only.
	ResultMarker bool
	// Stream answers with events, one JSON line each.
	Stream bool
	// ExplainDenials names the system calls that the seccomp filter refused.
	ExplainDenials bool
	// NetworkUnsaid says that nothing was said of the network: where all execs share a sandbox, that sandbox's is meant.
	NetworkUnsaid bool
	// InlineOutputs is how many bytes of the files that a run leaves in outputs/ the answer has, at most 64 MiB; 0: it only lists them.
	InlineOutputs int64
}

// mostInlineOutputs bounds what one answer carries of files; who wants more keeps the sandbox and fetches them.
const mostInlineOutputs = 64 << 20

// wireOutputs is what is asked for of the files that a run leaves.
type wireOutputs struct {
	InlineBytes *int64 `json:"inlineBytes"`
}

// inline is how many bytes are asked for, 0 for none.
func (w *wireOutputs) inline() (int64, *FieldError) {
	switch {
	case w == nil:
		return 0, nil
	case w.InlineBytes == nil:
		return 0, faultf("outputs.inlineBytes", "missing; leave outputs out for a list alone")
	case *w.InlineBytes < 1 || *w.InlineBytes > mostInlineOutputs:
		return 0, faultf("outputs.inlineBytes", "%d is out of range 1..%d; keep the sandbox and fetch larger files from it", *w.InlineBytes, mostInlineOutputs)
	}
	return *w.InlineBytes, nil
}

// wireCommon is what every body that starts a process has.
type wireCommon struct {
	Sandbox         *string          `json:"sandbox"`
	Image           *string          `json:"image"`
	SecurityContext *SecurityContext `json:"securityContext"`
	Network         *wireNetwork     `json:"network"`
	Limits          *wireLimits      `json:"limits"`
	Stream          bool             `json:"stream"`
	ExplainDenials  bool             `json:"explainDenials"`
}

type wireExec struct {
	wireCommon
	Command      *wireCommand `json:"command"`
	ResultMarker bool         `json:"resultMarker"`
}

type wireCommand struct {
	Argv        []string          `json:"argv"`
	Env         map[string]string `json:"env"`
	Cwd         *string           `json:"cwd"`
	Stdin       *string           `json:"stdin"`
	StdinBase64 *[]byte           `json:"stdinBase64"`
	Leave       bool              `json:"leaveChildren"`
	ReadOnly    bool              `json:"readOnly"`
}

type wireRun struct {
	wireCommon
	Language       *string           `json:"language"`
	Code           *string           `json:"code"`
	Inputs         jsontext.Value    `json:"inputs"`
	Env            map[string]string `json:"env"`
	Cwd            *string           `json:"cwd"`
	TimeoutSeconds *float64          `json:"timeoutSeconds"`
	Outputs        *wireOutputs      `json:"outputs"`
}

// The bodies of decide are those of exec and run with the action beside.
type wireDecideExec struct {
	Action string `json:"action"`
	wireExec
}

type wireDecideRun struct {
	Action string `json:"action"`
	wireRun
}

// A file operation comes as a path and parameters; to be decided on, it has a body.
type wireDecideFile struct {
	Action  string      `json:"action"`
	Sandbox string      `json:"sandbox"`
	File    File        `json:"file"`
	Limits  *wireLimits `json:"limits"`
}

func (w wireDecideFile) request() (Request, *FieldError) {
	request := Request{Action: ActionFile, Sandbox: w.Sandbox, File: w.File}
	var fault *FieldError
	if w.Limits != nil {
		if request.Limits, fault = w.Limits.limits("limits"); fault != nil {
			return Request{}, fault
		}
	}
	if w.Sandbox == "" {
		return Request{}, faultf("sandbox", "missing: a file is in a sandbox that exists")
	}
	if fault := checkSandbox("sandbox", w.Sandbox); fault != nil {
		return Request{}, fault
	}
	return request, w.File.check("file")
}

// ParseExec reads the body of POST /v1/exec. The error is a *FieldError.
func ParseExec(data []byte) (Request, ExecOptions, error) {
	var wire wireExec
	if fault := decode(data, &wire, ""); fault != nil {
		return Request{}, ExecOptions{}, fault
	}
	request, fault := wire.request()
	if fault != nil {
		return Request{}, ExecOptions{}, fault
	}
	return request, ExecOptions{ResultMarker: wire.ResultMarker, Stream: wire.Stream, ExplainDenials: wire.ExplainDenials, NetworkUnsaid: wire.Network == nil}, nil
}

// ParseRun reads the body of POST /v1/run. Inputs that aren't there are {}. The error is a *FieldError.
func ParseRun(data []byte) (Request, ExecOptions, error) {
	rest, inputs := cutInputs(data)
	return parseRunBody(rest, inputs, nil)
}

// parseRunBody reads a body whose inputs were taken out: they are inputs, or bulk is what is known of them.
func parseRunBody(rest []byte, inputs jsontext.Value, bulk *Bulk) (Request, ExecOptions, error) {
	var wire wireRun
	if fault := decode(rest, &wire, ""); fault != nil {
		return Request{}, ExecOptions{}, sayExternals(fault)
	}
	request, fault := wire.request(inputs, bulk)
	if fault != nil {
		return Request{}, ExecOptions{}, fault
	}
	inline, fault := wire.Outputs.inline()
	if fault != nil {
		return Request{}, ExecOptions{}, fault
	}
	return request, ExecOptions{Stream: wire.Stream, ExplainDenials: wire.ExplainDenials, NetworkUnsaid: wire.Network == nil, InlineOutputs: inline}, nil
}

// sayExternals explains why "externals", which callers of DataRobot's sandbox know, is no field of a run.
func sayExternals(fault *FieldError) *FieldError {
	if fault.Field == "externals" {
		return faultf("externals", "not supported: a program in a sandbox can't call functions of its caller; hand data over by inputs")
	}
	return fault
}

// ParseDecide reads the body of POST /v1/decide: that of exec or of run, or a file operation, with "action" saying which. The error is a *FieldError.
func ParseDecide(data []byte) (Request, error) {
	rest, inputs := cutInputs(data)
	action, fault := decideAction(rest)
	if fault != nil {
		return Request{}, fault
	}
	var request Request
	switch action {
	case ActionRun:
		var wire wireDecideRun
		if fault := decode(rest, &wire, ""); fault != nil {
			return Request{}, sayExternals(fault)
		}
		if request, fault = wire.request(inputs, nil); fault == nil {
			_, fault = wire.Outputs.inline()
		}
	case ActionFile:
		var wire wireDecideFile
		if fault := decode(data, &wire, ""); fault != nil {
			return Request{}, fault
		}
		request, fault = wire.request()
	default:
		var wire wireDecideExec
		if fault := decode(data, &wire, ""); fault != nil {
			return Request{}, fault
		}
		request, fault = wire.request()
	}
	if fault != nil {
		return Request{}, fault
	}
	return request, nil
}

// decideAction reads the action alone; everything else in the body is looked at afterwards, strictly.
func decideAction(data []byte) (Action, *FieldError) {
	var head struct {
		Action *string                   `json:"action"`
		Others map[string]jsontext.Value `json:",embed"`
	}
	if fault := decode(data, &head, ""); fault != nil {
		return "", fault
	}
	actions := []string{string(ActionExec), string(ActionFile), string(ActionRun)}
	if head.Action == nil {
		fault := faultf("action", "missing, want one of %s", strings.Join(actions, ", "))
		for _, key := range sortedKeys(head.Others) {
			if Nearest(key, []string{"action"}) != "" {
				return "", &FieldError{Field: member("", key), Message: "unknown field", Nearest: "action"}
			}
		}
		return "", fault
	}
	return Action(*head.Action), checkEnum("action", *head.Action, actions)
}

// ParseSecurityContext reads a securityContext alone; paths in the error begin with "securityContext".
func ParseSecurityContext(data []byte) (SecurityContext, error) {
	var context SecurityContext
	if fault := decode(data, &context, "securityContext"); fault != nil {
		return SecurityContext{}, fault
	}
	if fault := context.check("securityContext"); fault != nil {
		return SecurityContext{}, fault
	}
	return context.canonicalNames(), nil
}

// ParseNetwork reads a network spec alone; paths in the error begin with "network". Targets come back canonical.
func ParseNetwork(data []byte) (NetworkSpec, error) {
	var wire wireNetwork
	if fault := decode(data, &wire, "network"); fault != nil {
		return NetworkSpec{}, fault
	}
	spec, fault := wire.spec("network")
	if fault != nil {
		return NetworkSpec{}, fault
	}
	return spec, nil
}

// ParseLimits reads limits alone; paths in the error begin with "limits".
func ParseLimits(data []byte) (Limits, error) {
	var wire wireLimits
	if fault := decode(data, &wire, "limits"); fault != nil {
		return Limits{}, fault
	}
	limits, fault := wire.limits("limits")
	if fault != nil {
		return Limits{}, fault
	}
	return limits, nil
}

func (w wireCommon) common(action Action) (Request, *FieldError) {
	request := Request{Action: action}
	if w.Sandbox != nil {
		if *w.Sandbox == "" {
			return Request{}, faultf("sandbox", "empty; leave it out for a sandbox of its own")
		}
		if fault := checkSandbox("sandbox", *w.Sandbox); fault != nil {
			return Request{}, fault
		}
		request.Sandbox = *w.Sandbox
	}
	image, fault := writtenImage(w.Image)
	if fault != nil {
		return Request{}, fault
	}
	if w.Image != nil && w.Sandbox != nil {
		return Request{}, faultf("image", "beside sandbox, which has the image that it was made with; want one of the two")
	}
	request.Image = image
	if w.SecurityContext != nil {
		if fault := w.SecurityContext.check("securityContext"); fault != nil {
			return Request{}, fault
		}
		request.SecurityContext = w.SecurityContext.canonicalNames()
	}
	request.NetworkInherited = w.Network == nil && w.Sandbox != nil
	if w.Network != nil {
		if request.Network, fault = w.Network.spec("network"); fault != nil {
			return Request{}, fault
		}
	}
	if w.Limits != nil {
		if request.Limits, fault = w.Limits.limits("limits"); fault != nil {
			return Request{}, fault
		}
	}
	return request, nil
}

func (w wireExec) request() (Request, *FieldError) {
	if w.Command == nil {
		return Request{}, faultf("command", "missing")
	}
	request, fault := w.common(ActionExec)
	if fault != nil {
		return Request{}, fault
	}
	command := Command{Argv: w.Command.Argv, Env: w.Command.Env, LeaveChildren: w.Command.Leave, ReadOnly: w.Command.ReadOnly}
	// An image may have a program of its own, which stands in place of one that isn't there.
	if w.Command.Argv == nil && request.Image == (Image{}) {
		return Request{}, faultf("command.argv", "missing, want at least the program")
	}
	if command.Cwd, fault = writtenCwd("command.cwd", w.Command.Cwd); fault != nil {
		return Request{}, fault
	}
	switch {
	case w.Command.Stdin != nil && w.Command.StdinBase64 != nil:
		return Request{}, faultf("command.stdinBase64", "beside command.stdin; want one of the two")
	case w.Command.Stdin != nil:
		command.Stdin = []byte(*w.Command.Stdin)
	case w.Command.StdinBase64 != nil:
		command.Stdin = *w.Command.StdinBase64
	}
	request.Command = command
	if w.Command.Argv == nil { // all but the program is checked now, with the program once it is known
		named := request
		named.Command.Argv = []string{ImageHost}
		return request, named.checkCommand()
	}
	return request, request.checkCommand()
}

func (w wireRun) request(inputs jsontext.Value, bulk *Bulk) (Request, *FieldError) {
	if w.Code == nil {
		return Request{}, faultf("code", "missing")
	}
	request, fault := w.common(ActionRun)
	if fault != nil {
		return Request{}, fault
	}
	if w.TimeoutSeconds != nil {
		if request.Limits.TimeoutSeconds != 0 {
			return Request{}, faultf("timeoutSeconds", "beside limits.timeoutSeconds; want one of the two")
		}
		timeout, fault := wireLimits{TimeoutSeconds: w.TimeoutSeconds}.limits("")
		if fault != nil {
			return Request{}, fault
		}
		request.Limits.TimeoutSeconds = timeout.TimeoutSeconds
	}
	program := Program{Language: LanguagePython, Env: w.Env, Inputs: inputs, Bulk: bulk}
	if w.Language != nil {
		program.Language = *w.Language
	}
	if inputs == nil && bulk == nil {
		program.Inputs = jsontext.Value("{}")
	}
	// An editor's byte order mark isn't the author's; a second one is, and a syntax error.
	program.Code = strings.TrimPrefix(*w.Code, "\uFEFF")
	if program.Cwd, fault = writtenCwd("cwd", w.Cwd); fault != nil {
		return Request{}, fault
	}
	request.Program = program
	return request, program.check("")
}

// writtenCwd refuses an empty directory that somebody wrote: it would otherwise turn into the default.
func writtenCwd(field string, cwd *string) (string, *FieldError) {
	if cwd == nil {
		return "", nil
	}
	if *cwd == "" {
		return "", faultf(field, "empty, want an absolute path")
	}
	return *cwd, nil
}
