package seccomp

import "fmt"

// scratchWords is BPF_MEMWORDS.
const scratchWords = 16

// operand says what an instruction's K must satisfy.
type operand uint8

const (
	refused operand = iota // the zero value, for codes that aren't listed
	anyK
	dataOffset
	wordIndex
	shift
	divisor
	jumpBoth
	jumpAlways
)

// instructionSet is what seccomp_check_filter lets through, and nothing else.
var instructionSet = [256]operand{
	0x20: dataOffset,       // ld [k]
	0x80: anyK, 0x81: anyK, // ld, ldx len
	0x00: anyK, 0x01: anyK, // ld, ldx #k
	0x60: wordIndex, 0x61: wordIndex, // ld, ldx M[k]
	0x02: wordIndex, 0x03: wordIndex, // st, stx M[k]
	0x04: anyK, 0x0c: anyK, // add
	0x14: anyK, 0x1c: anyK, // sub
	0x24: anyK, 0x2c: anyK, // mul
	0x34: divisor, 0x3c: anyK, // div
	0x44: anyK, 0x4c: anyK, // or
	0x54: anyK, 0x5c: anyK, // and
	0x64: shift, 0x6c: anyK, // lsh
	0x74: shift, 0x7c: anyK, // rsh
	0x84: anyK,             // neg
	0xa4: anyK, 0xac: anyK, // xor
	0x05: jumpAlways,
	0x15: jumpBoth, 0x1d: jumpBoth, // jeq
	0x25: jumpBoth, 0x2d: jumpBoth, // jgt
	0x35: jumpBoth, 0x3d: jumpBoth, // jge
	0x45: jumpBoth, 0x4d: jumpBoth, // jset
	0x06: anyK, 0x16: anyK, // ret #k, ret a
	0x07: anyK, 0x87: anyK, // tax, txa
}

func (in Instruction) kind() operand {
	if int(in.Code) >= len(instructionSet) {
		return refused
	}
	return instructionSet[in.Code]
}

// Validate says whether the kernel takes the program (bpf_check_classic and seccomp_check_filter).
func (p Program) Validate() error {
	if len(p) == 0 || len(p) > maxInstructions {
		return fmt.Errorf("seccomp: program of %d instructions: want 1 to %d", len(p), maxInstructions)
	}
	for i, in := range p {
		kind := in.kind()
		if kind == refused {
			return fmt.Errorf("seccomp: instruction %d: code %#x is not one that seccomp takes", i, in.Code)
		}
		left := uint32(len(p) - i - 1) // instructions behind this one
		switch {
		case kind == dataOffset && (in.K%4 != 0 || in.K >= dataSize),
			kind == wordIndex && in.K >= scratchWords,
			kind == shift && in.K >= 32,
			kind == divisor && in.K == 0:
			return fmt.Errorf("seccomp: instruction %d: code %#x with operand %#x", i, in.Code, in.K)
		case kind == jumpAlways && in.K >= left,
			kind == jumpBoth && (uint32(in.JT) >= left || uint32(in.JF) >= left):
			return fmt.Errorf("seccomp: instruction %d: jump out of the program", i)
		}
	}
	if last := p[len(p)-1].Code; last != 0x06 && last != 0x16 {
		return fmt.Errorf("seccomp: the last instruction (code %#x) is no return", last)
	}
	return p.checkScratch()
}

// checkScratch refuses loads of scratch words that some way there has not stored (check_load_and_stores).
func (p Program) checkScratch() error {
	stored := make([]uint16, len(p)+1) // on every way to an instruction
	for i := range stored {
		stored[i] = 0xffff
	}
	valid := uint16(0)
	for i, in := range p {
		valid &= stored[i]
		switch in.Code {
		case 0x02, 0x03:
			valid |= 1 << in.K
		case 0x60, 0x61:
			if valid&(1<<in.K) == 0 {
				return fmt.Errorf("seccomp: instruction %d: scratch word %d is loaded before it is stored", i, in.K)
			}
		case opJump:
			stored[i+1+int(in.K)] &= valid
			valid = 0xffff
		default:
			if in.kind() == jumpBoth {
				stored[i+1+int(in.JT)] &= valid
				stored[i+1+int(in.JF)] &= valid
				valid = 0xffff
			}
		}
	}
	return nil
}
