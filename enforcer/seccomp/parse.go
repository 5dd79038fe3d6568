package seccomp

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// maxProfileBytes bounds what ParseProfile looks at; moby's profile has 18 KB.
const maxProfileBytes = 1 << 20

// ProfileError says which field of a profile is wrong and, where there is one, the nearest right word.
type ProfileError struct {
	Field, Message, Nearest string
}

func (e *ProfileError) Error() string {
	s := "seccomp profile: " + e.Message
	if e.Field != "" {
		s = "seccomp profile: " + e.Field + ": " + e.Message
	}
	if e.Nearest != "" {
		s += "; nearest is " + e.Nearest
	}
	return s
}

// The wire form: OCI runtime-spec 1.3 §linux.seccomp, and moby's additions (archMap, name, comment, includes, excludes).
type (
	wireProfile struct {
		DefaultAction    *string    `json:"defaultAction"`
		DefaultErrnoRet  *uint64    `json:"defaultErrnoRet"`
		Architectures    []string   `json:"architectures"`
		ArchMap          []wireArch `json:"archMap"`
		Flags            []string   `json:"flags"`
		ListenerPath     string     `json:"listenerPath"`
		ListenerMetadata string     `json:"listenerMetadata"`
		Syscalls         []wireRule `json:"syscalls"`
	}
	wireArch struct {
		Architecture     string   `json:"architecture"`
		SubArchitectures []string `json:"subArchitectures"`
	}
	wireRule struct {
		Names    []string       `json:"names"`
		Name     string         `json:"name"`
		Action   *string        `json:"action"`
		ErrnoRet *uint64        `json:"errnoRet"`
		Args     []wireArg      `json:"args"`
		Comment  string         `json:"comment"`
		Includes *wireCondition `json:"includes"`
		Excludes *wireCondition `json:"excludes"`
	}
	wireArg struct {
		Index    *uint64 `json:"index"`
		Value    *uint64 `json:"value"`
		ValueTwo uint64  `json:"valueTwo"`
		Op       *string `json:"op"`
	}
	wireCondition struct {
		Caps      []string `json:"caps"`
		Arches    []string `json:"arches"`
		MinKernel string   `json:"minKernel"`
	}
)

// wireFields are all names of the wire form, to find the nearest.
var wireFields = [...]string{
	"action", "archMap", "arches", "architecture", "architectures", "args", "caps", "comment", "defaultAction", "defaultErrnoRet", "errnoRet", "excludes",
	"flags", "includes", "index", "listenerMetadata", "listenerPath", "minKernel", "name", "names", "op", "subArchitectures", "syscalls", "value", "valueTwo",
}

// ParseProfile reads a profile: the OCI form or moby's. It is strict, since what is skipped in a profile is a hole: unknown fields, actions,
// comparisons and system calls are errors. Conditions stay in the profile; set Kernel if it has any on the kernel.
func ParseProfile(data []byte) (Profile, error) {
	if len(data) > maxProfileBytes {
		return Profile{}, &ProfileError{Message: fmt.Sprintf("%d bytes; at most %d", len(data), maxProfileBytes)}
	}
	var w wireProfile
	if err := json.Unmarshal(data, &w, json.RejectUnknownMembers(true)); err != nil {
		return Profile{}, jsonError(err)
	}
	if err := w.checkHead(); err != nil {
		return Profile{}, err
	}
	var p Profile
	var err error
	if p.Default, err = parseAction("defaultAction", w.DefaultAction, "defaultErrnoRet", w.DefaultErrnoRet); err != nil {
		return Profile{}, err
	}
	for i, r := range w.Syscalls {
		rule, err := r.rule(fmt.Sprintf("syscalls[%d]", i))
		if err != nil {
			return Profile{}, err
		}
		p.Rules = append(p.Rules, rule)
	}
	return p, nil
}

// checkHead looks at what is outside of the rules.
func (w wireProfile) checkHead() error {
	if len(w.Architectures) > 0 && len(w.ArchMap) > 0 {
		return &ProfileError{Field: "archMap", Message: "architectures is given too; use one of them"}
	}
	// The names are checked and then have no effect: the native architecture is filtered, every other is killed.
	arches := slices.Clone(w.Architectures)
	for _, m := range w.ArchMap {
		arches = append(append(arches, m.Architecture), m.SubArchitectures...)
	}
	for _, a := range arches {
		if !slices.Contains(architectures[:], a) {
			return &ProfileError{Field: "architectures", Message: fmt.Sprintf("%q is no architecture", a), Nearest: nearest(a, architectures[:])}
		}
	}
	switch {
	case len(w.Flags) > 0:
		return &ProfileError{Field: "flags", Message: fmt.Sprintf("%q: filters are installed without flags; leave it out", w.Flags[0])}
	case w.ListenerPath != "":
		return &ProfileError{Field: "listenerPath", Message: "user notification is not supported: nothing here answers it"}
	case w.ListenerMetadata != "":
		return &ProfileError{Field: "listenerMetadata", Message: "user notification is not supported: nothing here answers it"}
	}
	return nil
}

func (r wireRule) rule(field string) (Rule, error) {
	names := r.Names
	switch {
	case r.Name != "" && len(names) > 0:
		return Rule{}, &ProfileError{Field: field + ".name", Message: "names is given too; use names"}
	case r.Name != "":
		names = []string{r.Name}
	case len(names) == 0:
		return Rule{}, &ProfileError{Field: field + ".names", Message: "missing: at least one system call"}
	}
	for i, name := range names {
		if _, ok := lookup(name); !ok {
			return Rule{}, &ProfileError{Field: fmt.Sprintf("%s.names[%d]", field, i), Message: fmt.Sprintf("%q is no system call of any architecture", name), Nearest: nearestCall(name)}
		}
	}
	action, err := parseAction(field+".action", r.Action, field+".errnoRet", r.ErrnoRet)
	if err != nil {
		return Rule{}, err
	}
	rule := Rule{Calls: names, Action: action}
	seen := [6]bool{}
	for i, a := range r.Args {
		at := fmt.Sprintf("%s.args[%d]", field, i)
		t, err := a.test(at)
		if err != nil {
			return Rule{}, err
		}
		if seen[t.Arg] {
			// Runtimes silently make "either" of it, the specification reads as "both".
			return Rule{}, &ProfileError{Field: at + ".index", Message: fmt.Sprintf("argument %d is tested twice in one rule; write one rule for each", t.Arg)}
		}
		seen[t.Arg] = true
		rule.Tests = append(rule.Tests, t)
	}
	if rule.Includes, err = r.Includes.condition(field + ".includes"); err != nil {
		return Rule{}, err
	}
	rule.Excludes, err = r.Excludes.condition(field + ".excludes")
	return rule, err
}

func (a wireArg) test(field string) (Test, error) {
	switch {
	case a.Index == nil:
		return Test{}, &ProfileError{Field: field + ".index", Message: "missing"}
	case *a.Index > 5:
		return Test{}, &ProfileError{Field: field + ".index", Message: fmt.Sprintf("%d: arguments are 0 to 5", *a.Index)}
	case a.Value == nil:
		return Test{}, &ProfileError{Field: field + ".value", Message: "missing"}
	case a.Op == nil:
		return Test{}, &ProfileError{Field: field + ".op", Message: "missing"}
	}
	t := Test{Arg: uint8(*a.Index), Mask: 1<<64 - 1, Value: *a.Value}
	if *a.Op == "SCMP_CMP_MASKED_EQ" {
		t.Op, t.Mask, t.Value = Equal, *a.Value, a.ValueTwo
		return t, nil
	}
	for _, o := range operators {
		if o.word == *a.Op {
			t.Op = o.op
			return t, nil
		}
	}
	words := []string{"SCMP_CMP_MASKED_EQ"}
	for _, o := range operators {
		words = append(words, o.word)
	}
	return Test{}, &ProfileError{Field: field + ".op", Message: fmt.Sprintf("%q is no comparison", *a.Op), Nearest: nearest(*a.Op, words)}
}

func (c *wireCondition) condition(field string) (Condition, error) {
	if c == nil {
		return Condition{}, nil
	}
	for _, name := range c.Caps {
		if !strings.HasPrefix(name, "CAP_") {
			return Condition{}, &ProfileError{Field: field + ".caps", Message: fmt.Sprintf("%q: capabilities are written CAP_NAME", name)}
		}
	}
	for _, a := range c.Arches {
		if !slices.Contains(conditionArches[:], a) {
			return Condition{}, &ProfileError{Field: field + ".arches", Message: fmt.Sprintf("%q is no architecture", a), Nearest: nearest(a, conditionArches[:])}
		}
	}
	if c.MinKernel != "" {
		if _, err := kernelVersion(c.MinKernel); err != nil {
			return Condition{}, &ProfileError{Field: field + ".minKernel", Message: err.Error()}
		}
	}
	return Condition{Caps: c.Caps, Arches: c.Arches, MinKernel: c.MinKernel}, nil
}

// parseAction reads an action and its errno. EPERM is the specification's default.
func parseAction(field string, word *string, errnoField string, data *uint64) (Action, error) {
	if word == nil {
		return 0, &ProfileError{Field: field, Message: "missing"}
	}
	if *word == "SCMP_ACT_NOTIFY" {
		return 0, &ProfileError{Field: field, Message: "SCMP_ACT_NOTIFY is not supported: nothing here answers notifications"}
	}
	for _, a := range actionWords {
		if a.word != *word {
			continue
		}
		takes := a.action == errno || a.action == trace
		switch {
		case data == nil && takes:
			return a.action | Action(syscall.EPERM), nil
		case data == nil:
			return a.action, nil
		case !takes:
			return 0, &ProfileError{Field: errnoField, Message: fmt.Sprintf("%s has no errno", *word)}
		case *data > maxErrno:
			return 0, &ProfileError{Field: errnoField, Message: fmt.Sprintf("%d: at most %d", *data, maxErrno)}
		}
		return a.action | Action(*data), nil
	}
	var words []string
	for _, a := range actionWords {
		words = append(words, a.word)
	}
	return 0, &ProfileError{Field: field, Message: fmt.Sprintf("%q is no action", *word), Nearest: nearest(*word, words)}
}

// jsonError names the field of a JSON error.
func jsonError(err error) error {
	var s *json.SemanticError
	if errors.As(err, &s) {
		field := fieldPath(s.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return &ProfileError{Field: field, Message: "unknown field", Nearest: nearest(s.JSONPointer.LastToken(), wireFields[:])}
		}
		return &ProfileError{Field: field, Message: fmt.Sprintf("JSON %v doesn't fit here: %v", s.JSONKind, s.Err)}
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return &ProfileError{Field: fieldPath(syntax.JSONPointer), Message: syntax.Err.Error()}
	}
	return &ProfileError{Message: err.Error()}
}

// fieldPath writes /syscalls/3/args as syscalls[3].args.
func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}
