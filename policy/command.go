package policy

import (
	"strings"
	"unicode/utf8"
)

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
	// LeaveChildren has what the program leaves behind live on, until its sandbox ends: only in a sandbox that exists. Killed, at its deadline or by its
	// caller, the whole tree ends as always.
	LeaveChildren bool `json:"leaveChildren,omitzero"`
	// ReadOnly has the program and all that it starts write nowhere but to devices, and change no file's mode, owner, times or attributes.
	ReadOnly bool `json:"readOnly,omitzero"`
	// Terminal gives the program a terminal of its own for its standard streams, which somebody sits at. No request on the wire has it: a façade does, that
	// brings the other end.
	Terminal bool `json:"terminal,omitzero"`
}

// What execve(2) and open(2) take. mostArguments counts as the kernel does: each string with its NUL and its pointer. It leaves half of the
// smallest usual ARG_MAX (2 MiB) for what the sandbox adds.
const (
	longestArgument = 131071
	mostArguments   = 1 << 20
	pointerBytes    = 8
	longestPath     = 4095
)

// check says what no Command may be, whoever made it.
func (c Command) check(field string) *FieldError {
	if len(c.Argv) == 0 {
		return faultf(member(field, "argv"), "empty, want at least the program")
	}
	if c.Argv[0] == "" {
		return faultf(element(member(field, "argv"), 0), "empty, want the program")
	}
	total := 0
	for i, argument := range c.Argv {
		if fault := checkArgument(element(member(field, "argv"), i), argument); fault != nil {
			return fault
		}
		total += len(argument) + 1 + pointerBytes
	}
	if fault := checkEnv(member(field, "env"), c.Env, total); fault != nil {
		return fault
	}
	return checkCwd(member(field, "cwd"), c.Cwd)
}

// checkEnv looks at the environment. taken is how much of the room argv has used up.
func checkEnv(field string, env map[string]string, taken int) *FieldError {
	for _, name := range sortedKeys(env) {
		where := member(field, name)
		switch {
		case name == "":
			return faultf(field, "a name is empty")
		case strings.Contains(name, "="):
			return faultf(where, "the name has a =")
		}
		if fault := checkArgument(where, name+"="+env[name]); fault != nil {
			return fault
		}
		taken += len(name) + 1 + len(env[name]) + 1 + pointerBytes
	}
	if taken > mostArguments {
		return faultf(strings.TrimSuffix(field, ".env"), "argv and env take %d bytes, at most %d (a string counts with its NUL and 8 bytes of pointer); hand long text over by stdin", taken, mostArguments)
	}
	return nil
}

func checkArgument(field, text string) *FieldError {
	if len(text) > longestArgument {
		return faultf(field, "%d bytes, at most %d in one string; hand long text over by stdin", len(text), longestArgument)
	}
	return checkText(field, text)
}

// checkText refuses what C strings can't carry and what JSON can't.
func checkText(field, text string) *FieldError {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return faultf(field, "NUL at byte %d", at)
	}
	if !utf8.ValidString(text) {
		return faultf(field, "not UTF-8")
	}
	return nil
}

func checkCwd(field, cwd string) *FieldError {
	switch {
	case cwd == "":
		return nil
	case cwd[0] != '/':
		return faultf(field, "%s is relative, want an absolute path", quote(cwd))
	case len(cwd) > longestPath:
		return faultf(field, "%d bytes, at most %d", len(cwd), longestPath)
	}
	return checkText(field, cwd)
}
