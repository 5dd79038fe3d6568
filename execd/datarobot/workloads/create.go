package workloads

import (
	"encoding/base64"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// What a create request has. Everything that the client sends has its field; what has none is refused, so that nothing is asked for and not heard.
type (
	wireCreate struct {
		Name     string        `json:"name"`
		Artifact *wireArtifact `json:"artifact"`
		Runtime  *wireRuntime  `json:"runtime"`
	}
	wireArtifact struct {
		Name string    `json:"name"`
		Type string    `json:"type"`
		Spec *wireSpec `json:"spec"`
	}
	wireSpec struct {
		ContainerGroups []wireGroup `json:"containerGroups"`
	}
	wireGroup struct {
		Name       string          `json:"name"`
		Containers []wireContainer `json:"containers"`
	}
	wireContainer struct {
		Name            string         `json:"name"`
		ImageURI        string         `json:"imageUri"`
		Primary         *bool          `json:"primary"`
		Port            *int           `json:"port"` // nothing listens there, and nothing asks
		EnvironmentVars []wireVariable `json:"environmentVars"`
		SecurityContext *wireContext   `json:"securityContext"`
	}
	wireVariable struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	wireContext struct {
		ReadOnlyRootFilesystem   *bool `json:"readOnlyRootFilesystem"`
		AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation"`
		Capabilities             *struct {
			Add  []string `json:"add"`
			Drop []string `json:"drop"`
		} `json:"capabilities"`
		SeccompProfile *struct {
			Type string `json:"type"`
		} `json:"seccompProfile"`
	}
	wireRuntime struct {
		ContainerGroups []wireRuntimeGroup `json:"containerGroups"`
	}
	wireRuntimeGroup struct {
		Name         string                 `json:"name"`
		ReplicaCount *int                   `json:"replicaCount"`
		Containers   []wireRuntimeContainer `json:"containers"`
	}
	wireRuntimeContainer struct {
		Name               string         `json:"name"`
		ResourceAllocation *wireResources `json:"resourceAllocation"`
	}
	wireResources struct {
		CPU    *float64 `json:"cpu"`
		Memory *int64   `json:"memory"`
	}
)

// order is what a create request asks for.
type order struct {
	name    string
	image   string
	request policy.Request // without its caller
	// seconds is the time limit in whole seconds, as the client speaks of it.
	seconds int64
	// inputs are those that are too long for memory, else nil.
	inputs *spool.Text
}

func (o order) close() {
	if o.inputs != nil {
		o.inputs.Close()
	}
}

// fault is what is wrong with a create request, with the status that says so.
type fault struct {
	status  int
	field   string
	message string
}

func (f *fault) Error() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

func wrong(field, format string, args ...any) *fault {
	return &fault{http.StatusUnprocessableEntity, field, fmt.Sprintf(format, args...)}
}

// The names of the contract's variables.
const (
	variables    = "DR_SANDBOX_"
	codeVariable = variables + "CODE_B64"
	inVariable   = variables + "INPUTS_B64"
	timeVariable = variables + "TIMEOUT_SECS"
	procVariable = variables + "MAX_PROCS"
)

// parse reads the body of a create request. The error is a *fault.
func (c Config) parse(body []byte) (order, error) { return c.parseLifted(body, nil) }

// parseLifted is parse for a body whose long strings are elsewhere. What it gives is the caller's to close, also after an error.
func (c Config) parseLifted(body []byte, long *lifted) (o order, err error) {
	var wire wireCreate
	if err := json.Unmarshal(body, &wire, json.RejectUnknownMembers(true)); err != nil {
		return o, &fault{http.StatusBadRequest, "", "the body isn't a workload: " + cut(err.Error())}
	}
	container, resources, err := wire.only()
	if err != nil {
		return o, err
	}
	const where = "artifact.spec.containerGroups[0].containers[0]."
	o.name, o.image = wire.Name, container.ImageURI
	if !c.knows(o.image) {
		return o, wrong(where+"imageUri", "%q isn't among the images of this server", cut(o.image))
	}
	r := &o.request
	r.Action, r.Program.Language = policy.ActionRun, policy.LanguagePython
	if r.SecurityContext, err = container.SecurityContext.policy(); err != nil {
		return o, err
	}
	if err := c.program(&o, container.EnvironmentVars, long, where+"environmentVars"); err != nil {
		return o, err
	}
	if err := long.all(); err != nil {
		return o, err
	}
	if err := c.resources(r, resources, "runtime.containerGroups[0].containers[0].resourceAllocation."); err != nil {
		return o, err
	}
	r.Limits.OutputBytes, r.Limits.TimeoutSeconds = c.OutputBytes, float64(o.seconds)
	// Inputs are Python's JSON, which has three tokens more, and go on as the bytes that came.
	checked := *r
	if r.Program.Bulk == nil {
		checked.Program.Inputs, _ = python.WithoutNonFinite(r.Program.Inputs)
	}
	var field *policy.FieldError
	if err := checked.Validate(); errors.As(err, &field) {
		return o, wrong(field.Field, "%s", field.Message)
	} else if err != nil {
		return o, wrong("", "%v", err)
	}
	return o, nil
}

// only is the one container of a workload, with what it may use.
func (w wireCreate) only() (wireContainer, *wireResources, error) {
	none := wireContainer{}
	switch {
	case w.Name == "":
		return none, nil, wrong("name", "missing")
	case len(w.Name) > 256:
		return none, nil, wrong("name", "%d bytes, at most 256", len(w.Name))
	case w.Artifact == nil || w.Artifact.Spec == nil:
		return none, nil, wrong("artifact.spec", "missing")
	case w.Artifact.Type != "service":
		return none, nil, wrong("artifact.type", "%q: want service", cut(w.Artifact.Type))
	case len(w.Artifact.Spec.ContainerGroups) != 1:
		return none, nil, wrong("artifact.spec.containerGroups", "%d groups: want one", len(w.Artifact.Spec.ContainerGroups))
	case w.Runtime == nil:
		return none, nil, wrong("runtime", "missing")
	case len(w.Runtime.ContainerGroups) != 1:
		return none, nil, wrong("runtime.containerGroups", "%d groups: want one", len(w.Runtime.ContainerGroups))
	}
	group, runtime := w.Artifact.Spec.ContainerGroups[0], w.Runtime.ContainerGroups[0]
	switch {
	case len(group.Containers) != 1:
		return none, nil, wrong("artifact.spec.containerGroups[0].containers", "%d containers: want one", len(group.Containers))
	case len(runtime.Containers) != 1:
		return none, nil, wrong("runtime.containerGroups[0].containers", "%d containers: want one", len(runtime.Containers))
	case runtime.Name != group.Name:
		return none, nil, wrong("runtime.containerGroups[0].name", "%q isn't a group of the artifact", cut(runtime.Name))
	case runtime.Containers[0].Name != group.Containers[0].Name:
		return none, nil, wrong("runtime.containerGroups[0].containers[0].name", "%q isn't a container of the artifact", cut(runtime.Containers[0].Name))
	case runtime.ReplicaCount != nil && *runtime.ReplicaCount != 1:
		return none, nil, wrong("runtime.containerGroups[0].replicaCount", "%d: want 1, since a workload runs once", *runtime.ReplicaCount)
	}
	return group.Containers[0], runtime.Containers[0].ResourceAllocation, nil
}

// policy is the context in policy's words. Everything is dropped in any case, so that any list of what to drop is met.
func (w *wireContext) policy() (policy.SecurityContext, error) {
	if w == nil {
		return policy.SecurityContext{}, nil // as if all were asked for
	}
	asked := policy.SecurityContext{ReadOnlyRootFilesystem: w.ReadOnlyRootFilesystem, AllowPrivilegeEscalation: w.AllowPrivilegeEscalation}
	if w.Capabilities != nil {
		asked.Capabilities = &policy.Capabilities{Add: w.Capabilities.Add, Drop: []string{policy.CapabilityAll}}
	}
	if w.SeccompProfile != nil {
		asked.SeccompProfile = &policy.SeccompProfile{Type: w.SeccompProfile.Type}
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return asked, wrong("securityContext", "%v", err)
	}
	named, err := policy.ParseSecurityContext(text) // by the same parser as everybody's
	var field *policy.FieldError
	if errors.As(err, &field) {
		return named, wrong(field.Field, "%s", field.Message)
	}
	return named, nil
}

// program takes code, inputs and time limit out of the variables; the others are the program's own.
func (c Config) program(o *order, list []wireVariable, long *lifted, where string) (err error) {
	r := &o.request
	o.seconds = int64(c.LongestTimeout / time.Second)
	seen := map[string]bool{}
	for i, variable := range list {
		field := fmt.Sprintf("%s[%d]", where, i)
		if seen[variable.Name] {
			return wrong(field, "%q comes twice", cut(variable.Name))
		}
		seen[variable.Name] = true
		switch variable.Name {
		case codeVariable:
			if text := long.find(variable.Value); text != nil {
				r.Program.Code, err = longCode(field, text, c.RestBytes)
			} else {
				r.Program.Code, err = decoded(field, variable.Value)
			}
			if err != nil {
				return err
			}
			// An editor's byte order mark isn't the author's; a second one is, and a syntax error.
			r.Program.Code = strings.TrimPrefix(r.Program.Code, "\uFEFF")
		case inVariable:
			if err := c.inputs(o, long, field, variable.Value); err != nil {
				return err
			}
		case timeVariable:
			if number, ok := pythonInt(variable.Value); ok && number > 0 && number <= math.MaxInt32 {
				o.seconds = number
			}
		case procVariable:
			if number, ok := pythonInt(variable.Value); ok && number > 0 {
				r.Limits.Pids = min(number, mostProcesses)
			}
		default:
			if strings.HasPrefix(variable.Name, variables) {
				return wrong(field, "%q isn't a variable of the contract", cut(variable.Name))
			}
			if r.Program.Env == nil {
				r.Program.Env = map[string]string{}
			}
			r.Program.Env[variable.Name] = variable.Value
		}
	}
	if !seen[codeVariable] || r.Program.Code == "" {
		return wrong(where, "%s isn't set", codeVariable)
	}
	if len(r.Program.Inputs) == 0 && r.Program.Bulk == nil {
		r.Program.Inputs = []byte("{}")
	}
	return nil
}

// inputs puts inputs into an order, beside its request when they are long.
func (c Config) inputs(o *order, long *lifted, field, value string) error {
	text := long.find(value)
	if text == nil {
		decoded, err := decoded(field, value)
		o.request.Program.Inputs = []byte(decoded)
		return err
	}
	inputs, err := long.longInputs(field, text, c.InputBytes)
	if err != nil {
		return err
	}
	text.Close() // it has no use any more, and its room does
	if short, isShort := inputs.Short(); isShort {
		o.request.Program.Inputs = short
		return nil
	}
	bulk := inputs.Bulk()
	o.inputs, o.request.Program.Bulk = inputs, &bulk
	return nil
}

// mostProcesses is the contract's own limit of processes, where one is asked for.
const mostProcesses = 4096

// resources gives what is asked for, up to the operator's maximum, and the maximum where nothing is.
func (c Config) resources(r *policy.Request, asked *wireResources, where string) error {
	r.Limits.MemoryBytes, r.Limits.CPU = c.MemoryBytes, c.CPU
	if asked == nil {
		return nil
	}
	if asked.Memory != nil {
		if *asked.Memory <= 0 || *asked.Memory > c.MemoryBytes {
			return wrong(where+"memory", "%d bytes: this server gives 1 to %d", *asked.Memory, c.MemoryBytes)
		}
		r.Limits.MemoryBytes = *asked.Memory
	}
	if asked.CPU != nil {
		if !(*asked.CPU > 0 && *asked.CPU <= c.CPU) {
			return wrong(where+"cpu", "%g cores: this server gives up to %g", *asked.CPU, c.CPU)
		}
		r.Limits.CPU = *asked.CPU
	}
	return nil
}

// decoded is the text of a variable. Line ends in base64 are fine, other characters outside of its alphabet aren't.
func decoded(field, value string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(value)
	switch {
	case err != nil:
		return "", wrong(field, "not base64: %v", err)
	case !utf8.Valid(raw):
		return "", wrong(field, "not UTF-8 beneath its base64")
	}
	return string(raw), nil
}

// cut shortens foreign text in a message.
func cut(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
