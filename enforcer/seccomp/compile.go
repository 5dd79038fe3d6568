package seccomp

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// maxInstructions is the kernel's BPF_MAXINSNS.
const maxInstructions = 4096

// ErrTooLong is a profile that doesn't fit into one program.
var ErrTooLong = errors.New("seccomp: the program would pass 4096 instructions")

// GateError is a profile that refuses a call which the child makes between its confinement and its program.
type GateError struct {
	Call   string
	Reason string
}

func (e *GateError) Error() string {
	return fmt.Sprintf("seccomp: the profile %s %s, which the child needs to start its program", e.Reason, e.Call)
}

// Compile makes the program that holds a profile and the base tightening on an architecture (a GOARCH), and further rules like those of the base.
func Compile(p Profile, arch string, further ...Rule) (Program, error) {
	m, err := machineOf(arch)
	if err != nil {
		return nil, err
	}
	// Further ones first: between two errnos for one call theirs counts, as they refuse for more reasons.
	return compile(p, m, slices.Concat(further, BaseTightening()), gateCalls[:])
}

// CompileBare is Compile without the base tightening and without the demands of the gate: what the profile alone says, to compare compilers by.
func CompileBare(p Profile, arch string) (Program, error) {
	m, err := machineOf(arch)
	if err != nil {
		return nil, err
	}
	return compile(p, m, nil, nil)
}

func compile(p Profile, m machine, tightening []Rule, needed []string) (Program, error) {
	d := &decisions{interned: map[node]*node{}}
	byNumber, err := decide(d, p, m, tightening)
	if err != nil {
		return nil, err
	}
	for _, name := range needed {
		c, _ := lookup(name)
		n := byNumber[m.number(c)]
		if n.yes != nil {
			return nil, &GateError{Call: name, Reason: "allows only some calls of"}
		}
		if !n.action.permits() {
			return nil, &GateError{Call: name, Reason: fmt.Sprintf("refuses (%v)", n.action)}
		}
	}
	a := assembler{returns: map[Action]int{}, tests: map[*node]entry{}}
	program := a.program(m.audit, merged(d, m, byNumber))
	if len(program) > maxInstructions {
		return nil, fmt.Errorf("%w: %d", ErrTooLong, len(program))
	}
	if err := program.Validate(); err != nil {
		return nil, fmt.Errorf("seccomp: bug in the compiler, please report: %w", err)
	}
	return program, nil
}

// decide gives each number of the table its decision.
func decide(d *decisions, p Profile, m machine, tightening []Rule) ([]*node, error) {
	names := m.names()
	newest, err := newestKnown(p, m)
	if err != nil {
		return nil, err
	}
	own, err := clauses(p, m, p.Rules)
	if err != nil {
		return nil, err
	}
	base, err := clauses(p, m, tightening)
	if err != nil {
		return nil, err
	}
	unknown := d.answer(Errno(syscall.ENOSYS))
	_, refusing := p.Default.Errno()
	byNumber := make([]*node, len(names))
	for n, name := range names {
		switch {
		case name == "", refusing && n > newest && len(base[n]) == 0:
			// What is newer than the profile isn't refused by its author: libc asks and falls back on ENOSYS.
			byNumber[n] = unknown
		default:
			byNumber[n] = d.call(own[n], base[n], p.Default)
		}
	}
	return byNumber, nil
}

// newestKnown is the highest number that the profile speaks of, whatever its conditions: its author knew the calls up to there.
func newestKnown(p Profile, m machine) (int, error) {
	newest := -1
	for _, r := range p.Rules {
		for _, name := range r.Calls {
			c, ok := lookup(name)
			if !ok {
				return 0, fmt.Errorf("seccomp: %q is no system call", name)
			}
			newest = max(newest, m.number(c))
		}
	}
	return newest, nil
}

// clauses sorts the rules that count by number.
func clauses(p Profile, m machine, rules []Rule) (map[int][]clause, error) {
	byNumber := map[int][]clause{}
	resolved, err := Profile{Kernel: p.Kernel, Rules: rules}.Resolved(m.goarch)
	if err != nil {
		return nil, err
	}
	for _, r := range resolved.Rules {
		for _, name := range r.Calls {
			c, ok := lookup(name)
			if !ok {
				return nil, fmt.Errorf("seccomp: %q is no system call", name)
			}
			n := m.number(c)
			if n < 0 {
				continue
			}
			tests := make([]Test, len(r.Tests))
			for i, t := range r.Tests {
				if t.Arg > 5 || t.Op > GreaterEqual {
					return nil, fmt.Errorf("seccomp: rule for %s: argument %d, comparison %d: there is no such thing", name, t.Arg, t.Op)
				}
				tests[i] = narrowed(name, t)
			}
			byNumber[n] = append(byNumber[n], clause{tests: tests, action: r.Action})
		}
	}
	return byNumber, nil
}

// merged are the spans of all 2^32 numbers.
func merged(d *decisions, m machine, byNumber []*node) []span {
	var spans []span
	add := func(from uint32, n *node) {
		if len(spans) == 0 || spans[len(spans)-1].decision != n {
			spans = append(spans, span{from, n})
		}
	}
	for n, decision := range byNumber {
		add(uint32(n), decision)
	}
	unknown := d.answer(Errno(syscall.ENOSYS))
	add(uint32(len(byNumber)), unknown)
	if m.x32 {
		add(1<<30, d.answer(KillProcess))
		add(1<<32-1, unknown) // syscall(-1) is a question whether there is seccomp, not an x32 call
	}
	return spans
}
