package seccomp

// Classic BPF, as far as seccomp takes it (linux/bpf_common.h).
const (
	opLoad    = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd     = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opJump    = 0x05 // BPF_JMP | BPF_JA
	opIfEqual = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opIfMore  = 0x25 // BPF_JMP | BPF_JGT | BPF_K
	opIfLeast = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	opReturn  = 0x06 // BPF_RET | BPF_K
)

// Offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
	dataSize   = 64
)

// assembler writes a program from its end to its start: BPF only jumps forward, so every target is there before the jump to it.
// Positions count from the end.
type assembler struct {
	code    []Instruction
	returns map[Action]int  // the last written return of each action
	tests   map[*node]entry // tests that are written
}

// entry is where a test begins, and where it goes on for one who has its first word loaded already.
type entry struct {
	at, loaded int
	word       word
}

// word is what the accumulator holds: 32 bits of an argument under a mask.
type word struct {
	offset, mask uint32
}

func (a *assembler) emit(i Instruction) int {
	a.code = append(a.code, i)
	return len(a.code) - 1
}

// ret is the position of a return that the next instruction can jump to.
func (a *assembler) ret(action Action) int {
	at, ok := a.returns[action]
	if !ok || len(a.code)-at-1 > 250 {
		at = a.emit(Instruction{Code: opReturn, K: uint32(action)})
		a.returns[action] = at
	}
	return at
}

// jump writes a conditional jump. Its offsets have 8 bits: a target that is too far gets a stepping stone just behind the jump.
func (a *assembler) jump(code uint16, k uint32, yes, no int) int {
	const reach = 255
	for {
		at := len(a.code)
		switch {
		case at-yes-1 > reach:
			yes = a.stone(yes)
		case at-no-1 > reach:
			no = a.stone(no)
		default:
			return a.emit(Instruction{Code: code, JT: uint8(at - yes - 1), JF: uint8(at - no - 1), K: k})
		}
	}
}

func (a *assembler) stone(target int) int {
	if i := a.code[target]; i.Code == opReturn {
		a.returns[Action(i.K)] = a.emit(i)
	} else {
		a.emit(Instruction{Code: opJump, K: uint32(len(a.code) - target - 1)})
	}
	return len(a.code) - 1
}

// position is where to jump for a node, coming with have in the accumulator.
func (a *assembler) position(n *node, have word) int {
	if n.yes == nil {
		return a.ret(n.action)
	}
	e, ok := a.tests[n]
	if !ok {
		e = a.write(n)
		a.tests[n] = e
	}
	if have == e.word {
		return e.loaded
	}
	return e.at
}

// write writes a test of a 64-bit argument as tests of its halves.
func (a *assembler) write(n *node) entry {
	yes, no, t := n.yes, n.no, n.test
	switch t.Op {
	case NotEqual:
		yes, no, t.Op = no, yes, Equal
	case Less:
		yes, no, t.Op = no, yes, GreaterEqual
	case LessEqual:
		yes, no, t.Op = no, yes, Greater
	}
	lo := word{dataArgs + 8*uint32(t.Arg), uint32(t.Mask)}
	hi := word{lo.offset + 4, uint32(t.Mask >> 32)}
	// The children first, so that none of them is written between the parts of this test.
	a.position(yes, word{})
	a.position(no, word{})
	if lo.mask == 0 {
		return a.load(hi, a.jump(upperAlone(t), uint32(t.Value>>32), a.position(yes, hi), a.position(no, hi)))
	}
	code := map[Op]uint16{Equal: opIfEqual, Greater: opIfMore, GreaterEqual: opIfLeast}[t.Op]
	e := a.load(lo, a.jump(code, uint32(t.Value), a.position(yes, lo), a.position(no, lo)))
	if hi.mask == 0 {
		return e
	}
	same := a.jump(opIfEqual, uint32(t.Value>>32), e.at, a.position(no, hi))
	if t.Op != Equal {
		same = a.jump(opIfMore, uint32(t.Value>>32), a.position(yes, hi), same)
	}
	return a.load(hi, same)
}

// upperAlone is the jump on the upper half of a test whose mask has no lower half: there the argument is 0.
func upperAlone(t Test) uint16 {
	switch {
	case t.Op == Equal:
		return opIfEqual
	case t.Op == GreaterEqual && uint32(t.Value) == 0:
		return opIfLeast
	}
	return opIfMore
}

// load writes the load of a word before the jump that looks at it.
func (a *assembler) load(w word, loaded int) entry {
	if w.mask != 0xffffffff {
		a.emit(Instruction{Code: opAnd, K: w.mask})
	}
	at := a.emit(Instruction{Code: opLoad, K: w.offset})
	return entry{at: at, loaded: loaded, word: w}
}

// span is a run of numbers with one decision; it ends where the next begins.
type span struct {
	from     uint32
	decision *node
}

// tree writes a balanced tree over the numbers, which the accumulator holds, and returns where it begins.
func (a *assembler) tree(spans []span) int {
	if len(spans) == 1 {
		return a.position(spans[0].decision, word{})
	}
	if n := len(spans); n == 3 && spans[0].decision == spans[2].decision && spans[2].from-spans[1].from == 1 {
		odd := a.position(spans[1].decision, word{})
		rest := a.position(spans[0].decision, word{})
		return a.jump(opIfEqual, spans[1].from, odd, rest)
	}
	half := len(spans) / 2
	right := a.tree(spans[half:])
	left := a.tree(spans[:half])
	return a.jump(opIfLeast, spans[half].from, right, left)
}

// program ends the writing with the check of the architecture, and puts the whole in the kernel's order.
func (a *assembler) program(audit uint32, spans []span) Program {
	if root := a.tree(spans); root != len(a.code)-1 {
		a.stone(root)
	}
	a.emit(Instruction{Code: opLoad, K: dataNumber})
	a.emit(Instruction{Code: opReturn, K: uint32(KillProcess)})
	a.emit(Instruction{Code: opIfEqual, K: audit, JT: 1})
	a.emit(Instruction{Code: opLoad, K: dataArch})
	p := make(Program, len(a.code))
	for i, in := range a.code {
		p[len(p)-1-i] = in
	}
	return p.reachable()
}

// reachable leaves out what nothing leads to: loads of tests that are only entered behind them.
func (p Program) reachable() Program {
	used := make([]bool, len(p)+1)
	used[0] = true
	for i, in := range p {
		if !used[i] {
			continue
		}
		for _, to := range in.next(i) {
			used[to] = true
		}
	}
	moved := make([]int, len(p)+1) // old position to new
	for i := range p {
		moved[i+1] = moved[i]
		if used[i] {
			moved[i+1]++
		}
	}
	var kept Program
	for i, in := range p {
		if !used[i] {
			continue
		}
		switch next := in.next(i); len(next) {
		case 2:
			in.JT, in.JF = uint8(moved[next[0]]-moved[i]-1), uint8(moved[next[1]]-moved[i]-1)
		case 1:
			if in.Code == opJump {
				in.K = uint32(moved[next[0]] - moved[i] - 1)
			}
		}
		kept = append(kept, in)
	}
	return kept
}

// next are the positions that may follow position i.
func (in Instruction) next(i int) []int {
	switch in.Code & 0x07 {
	case 0x06: // BPF_RET
		return nil
	case 0x05: // BPF_JMP
		if in.Code == opJump {
			return []int{i + 1 + int(in.K)}
		}
		return []int{i + 1 + int(in.JT), i + 1 + int(in.JF)}
	}
	return []int{i + 1}
}
