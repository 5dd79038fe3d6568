package seccomp

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// What a listener is for. A program that has one stops the caller of some calls until the listener has answered (SECCOMP_RET_USER_NOTIF). Where
// nobody listens any more the kernel answers ENOSYS: closed.
const (
	// ListenerExplain hears of what is refused, and answers the errno that the filter would have answered. It never lets a call through.
	ListenerExplain = "explain"
	// ListenerObserve hears of what is allowed, and lets all of it through. Refused is in the kernel, as without it.
	ListenerObserve = "observe"
)

// Explaining is the filter whose refusals come by its listener. ENOSYS stays the kernel's: it says "no such call" to libraries that ask for what is
// new and fall back, many times in the life of an ordinary program, and explains nothing that failed.
func (f Filter) Explaining() Filter {
	if len(f.Program) == 0 || f.Listener == ListenerExplain {
		return f
	}
	f.Listener, f.Answers = ListenerExplain, f.Program
	f.Program = f.Program.returning(func(a Action) Action {
		if e, fails := a.Errno(); fails && e != 0 && e != syscall.ENOSYS {
			return notify
		}
		return a
	})
	return f
}

// Answer is the errno of a call that a listener which explains was asked about. What the program doesn't refuse was not asked about: EPERM, so that
// no mistake of ours opens anything.
func (f Filter) Answer(arch uint32, nr int32, args [6]uint64) syscall.Errno {
	action, _ := f.Answers.run(arch, uint64(uint32(nr)), args)
	if e, fails := Action(action).Errno(); fails && e != 0 {
		return e
	}
	return syscall.EPERM
}

// Allows says whether the program lets a call through.
func (p Program) Allows(arch string, nr int, args [6]uint64) bool {
	action, _ := p.run(AuditArch(arch), uint64(nr), args)
	return Action(action).permits()
}

// Observing is the filter whose allowed calls come by its listener, which lets them go on. That is sound here and nowhere else: the listener decides
// nothing, so that there is nothing to win by changing a call's memory behind it ("seccomp user-space notification ... must not be used to
// implement a security policy", seccomp_unotify(2)). What the filter refuses it refuses in the kernel. The calls of the gate aren't asked about: they
// are made before anybody listens, and every profile has them.
func (f Filter) Observing(arch string) (Filter, error) {
	if f.Listener != "" { // whoever lets all go on must not be asked about what is refused
		return Filter{}, fmt.Errorf("%s: seccomp: the filter has a listener already", f.Profile)
	}
	var calls []uint32
	for _, name := range gateCalls {
		nr, ok := Number(arch, name)
		if !ok {
			return Filter{}, fmt.Errorf("seccomp: no call %s on %s", name, arch)
		}
		calls = append(calls, uint32(nr))
	}
	program, err := f.Program.returning(func(a Action) Action {
		if a.permits() {
			return notify
		}
		return a
	}).answering(arch, calls, Allow)
	if err != nil {
		return Filter{}, fmt.Errorf("%s: %w", f.Profile, err)
	}
	f.Listener, f.Program = ListenerObserve, program
	return f, nil
}

// GateCalls are the calls that every profile must allow, and that an observing filter doesn't tell of.
func GateCalls() []string { return gateCalls[:] }

// answering is the program that answers some calls of the native architecture before it looks at anything else.
func (p Program) answering(arch string, calls []uint32, answer Action) (Program, error) {
	// The compiler begins every program so: what stands behind has the number loaded, and jumps forward only.
	program := Program{{Code: opLoad, K: dataArch}, {Code: opIfEqual, K: AuditArch(arch), JT: 1}, {Code: opReturn, K: uint32(KillProcess)}, {Code: opLoad, K: dataNumber}}
	begin := len(program)
	if len(p) <= begin || !slices.Equal(p[:begin], program) {
		return nil, errors.New("seccomp: only a compiled profile can be changed")
	}
	for i, nr := range calls {
		test := Instruction{Code: opIfEqual, K: nr, JT: uint8(len(calls) - i - 1)}
		if i == len(calls)-1 {
			test.JF = 1
		}
		program = append(program, test)
	}
	program = append(program, Instruction{Code: opReturn, K: uint32(answer)})
	if program = append(program, p[begin:]...); len(program) > maxInstructions {
		return nil, ErrTooLong
	}
	return program, nil
}

// returning is the program with other answers. The compiler's answers are all constants.
func (p Program) returning(other func(Action) Action) Program {
	changed := make(Program, len(p))
	for i, in := range p {
		if in.Code == opReturn {
			in.K = uint32(other(Action(in.K)))
		}
		changed[i] = in
	}
	return changed
}
