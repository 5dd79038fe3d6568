package runner

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// plans are those that came last, made ready. A daemon sends the same few again and again.
type plans struct {
	kept []*readyPlan // newest last
}

// maxPlans is how many are kept, each with a descriptor and some ten kilobytes.
const maxPlans = 4

// readyPlan is a plan as a table bound to this process's memory, but for what an invocation changes.
type readyPlan struct {
	bytes []byte
	extra int
	plan  enforcer.Plan
	// rules is the Landlock ruleset. Its paths were looked up when it was made; nothing is ever added to it, since rules that come later
	// would hold for later children only.
	rules int
	rows  []row
	// Indices of the rows that an invocation changes, -1 when sabotaged away.
	chdir, gate, execve int
	// memory keeps alive what the rows point to.
	memory []any
}

// get gives the plan of these bytes for this many extra descriptors.
func (p *plans) get(text []byte, extra int, words *sharedWords) (*readyPlan, error) {
	for i, kept := range p.kept {
		if kept.extra == extra && bytes.Equal(kept.bytes, text) {
			p.kept = append(slices.Delete(p.kept, i, i+1), kept)
			return kept, nil
		}
	}
	made, err := newPlan(text, extra, words)
	if err != nil {
		return nil, err
	}
	if len(p.kept) == maxPlans {
		if oldest := p.kept[0]; oldest.rules >= 0 {
			unix.Close(oldest.rules)
		}
		p.kept = slices.Delete(p.kept, 0, 1)
	}
	p.kept = append(p.kept, made)
	return made, nil
}

func newPlan(text []byte, extra int, words *sharedWords) (*readyPlan, error) {
	p := &readyPlan{bytes: bytes.Clone(text), extra: extra, rules: -1}
	if err := json.Unmarshal(p.bytes, &p.plan, json.RejectUnknownMembers(true)); err != nil {
		return nil, &failure{"plan", err}
	}
	// The invocation's own texts are put into the rows each time.
	steps, err := Steps(p.plan, enforcer.Invocation{Argv: []string{"-"}, Cwd: "/", Extra: extra}, unix.Getpid())
	if err != nil {
		return nil, &failure{"plan", err}
	}
	steps = alter(steps)
	p.bind(steps, words)
	if landlocked(p.plan) {
		fd, err := p.plan.Landlock.Create()
		if err != nil {
			return nil, &failure{"landlock.create", err}
		}
		defer unix.Close(fd)
		if p.rules, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstLasting); err != nil {
			return nil, &failure{"landlock.create", err}
		}
	}
	return p, nil
}

// alter is where a test has the worker walk another table than the plan's. A build without the tag sabotage alters nothing.
var alter = sabotage

// bind turns steps into rows, with every pointer into memory that stays where it is.
func (p *readyPlan) bind(steps []Step, words *sharedWords) {
	index := func(name string) int { return slices.IndexFunc(steps, func(s Step) bool { return s.Name == name }) }
	p.chdir, p.gate, p.execve = index("chdir"), index("gate"), index("execve")
	p.rows = make([]row, len(steps))
	for i, step := range steps {
		r := &p.rows[i]
		*r = row{nr: step.Nr, want: step.Want, any: step.Any, gate: uintptr(step.Gate)}
		for n, arg := range step.Args {
			r.args[n] = uintptr(arg)
		}
		for _, memory := range step.Memory {
			r.args[memory.Arg] = p.pin(memory, words)
		}
	}
}

// pin gives the address of an argument's memory.
func (p *readyPlan) pin(memory Memory, words *sharedWords) uintptr {
	switch {
	case memory.Word == wordBorn:
		return uintptr(unsafe.Pointer(&words.born))
	case memory.Word == wordReady:
		return uintptr(unsafe.Pointer(&words.ready))
	case memory.Word == wordListener:
		return uintptr(unsafe.Pointer(&words.listener))
	case memory.Word == wordGate:
		return uintptr(unsafe.Pointer(&words.gate))
	case memory.Program != nil:
		program := &unix.SockFprog{Len: uint16(len(memory.Program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&memory.Program[0]))}
		p.memory = append(p.memory, program, memory.Program)
		return uintptr(unsafe.Pointer(program))
	case memory.Bytes != nil:
		p.memory = append(p.memory, memory.Bytes)
		return uintptr(unsafe.Pointer(&memory.Bytes[0]))
	}
	return 0 // strings: put in for each invocation
}

// invoke puts an invocation into the rows.
func (p *readyPlan) invoke(t *target, argv, envp []uintptr) {
	if p.chdir >= 0 {
		p.rows[p.chdir].args[0] = address(t.directory)
	}
	if p.execve < 0 {
		return
	}
	r := &p.rows[p.execve]
	vectors := [2]uintptr{uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0]))}
	if t.byPath {
		r.nr, r.args = unix.SYS_EXECVE, [6]uintptr{address(t.path), vectors[0], vectors[1]}
		return
	}
	r.nr, r.args = unix.SYS_EXECVEAT, [6]uintptr{uintptr(numbers(p.extra).target), address(empty), vectors[0], vectors[1], unix.AT_EMPTY_PATH}
}

// empty is the C string of no characters.
var empty = []byte{0}

func address(cstring []byte) uintptr { return uintptr(unsafe.Pointer(&cstring[0])) }

// pointers makes the array of a vector of C strings that follow each other in texts, NULL at its end, and gives what is left of texts.
func pointers(vector []uintptr, count uint32, texts []byte) ([]uintptr, []byte, error) {
	vector = vector[:0]
	for range count {
		end := bytes.IndexByte(texts, 0)
		if end < 0 {
			return nil, nil, fmt.Errorf("%w: fewer strings than said", ErrProtocol)
		}
		vector = append(vector, address(texts))
		texts = texts[end+1:]
	}
	return append(vector, 0), texts, nil
}
