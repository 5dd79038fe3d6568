package seccomp

import "encoding/binary"

// Run answers as the kernel would for a call: arch is an AUDIT_ARCH_* number, of nr the kernel keeps 32 bits, and the result is
// SECCOMP_RET_*. A program that the kernel would not take kills.
func (p Program) Run(arch uint32, nr uint64, args [6]uint64) uint32 {
	action, _ := p.Trace(arch, nr, args)
	return action
}

// Trace is Run with the number of instructions that it took.
func (p Program) Trace(arch uint32, nr uint64, args [6]uint64) (action uint32, steps int) {
	if p.Validate() != nil {
		return uint32(KillProcess), 0
	}
	return p.run(arch, nr, args)
}

func (p Program) run(arch uint32, nr uint64, args [6]uint64) (action uint32, steps int) {
	var data [dataSize]byte
	binary.LittleEndian.PutUint32(data[dataNumber:], uint32(nr))
	binary.LittleEndian.PutUint32(data[dataArch:], arch)
	for i, v := range args {
		binary.LittleEndian.PutUint64(data[dataArgs+8*i:], v)
	}
	var (
		a, x    uint32
		scratch [scratchWords]uint32
	)
	for pc := 0; pc < len(p); pc++ {
		in := p[pc]
		steps++
		switch in.Code & 0x07 {
		case 0x00: // BPF_LD
			a = loaded(in, data[:], scratch[:])
		case 0x01: // BPF_LDX
			x = loaded(in, data[:], scratch[:])
		case 0x02: // BPF_ST
			scratch[in.K] = a
		case 0x03: // BPF_STX
			scratch[in.K] = x
		case 0x04: // BPF_ALU
			v := in.K
			if in.Code&0x08 != 0 { // BPF_X
				v = x
			}
			if in.Code&0xf0 == 0x30 && v == 0 {
				return 0, steps // the kernel's programs return 0 on a division by zero
			}
			a = computed(in.Code&0xf0, a, v)
		case 0x05: // BPF_JMP
			v := in.K
			if in.Code&0x08 != 0 {
				v = x
			}
			pc += jumped(in, a, v)
		case 0x06: // BPF_RET
			if in.Code == 0x16 {
				return a, steps
			}
			return in.K, steps
		case 0x07: // BPF_MISC
			if in.Code == 0x07 {
				x = a
			} else {
				a = x
			}
		}
	}
	return uint32(KillProcess), steps
}

func loaded(in Instruction, data []byte, scratch []uint32) uint32 {
	switch in.Code & 0xe0 {
	case 0x20: // BPF_ABS
		return binary.LittleEndian.Uint32(data[in.K:])
	case 0x60: // BPF_MEM
		return scratch[in.K]
	case 0x80: // BPF_LEN
		return dataSize
	}
	return in.K
}

func computed(op uint16, a, v uint32) uint32 {
	switch op {
	case 0x00:
		return a + v
	case 0x10:
		return a - v
	case 0x20:
		return a * v
	case 0x30:
		return a / v
	case 0x40:
		return a | v
	case 0x50:
		return a & v
	case 0x60:
		return a << (v & 31) // as the kernel's own interpreter and compilers
	case 0x70:
		return a >> (v & 31)
	case 0x80:
		return -a
	}
	return a ^ v
}

// jumped is how many instructions a jump passes over.
func jumped(in Instruction, a, v uint32) int {
	var holds bool
	switch in.Code & 0xf0 {
	case 0x00:
		return int(in.K)
	case 0x10:
		holds = a == v
	case 0x20:
		holds = a > v
	case 0x30:
		holds = a >= v
	case 0x40:
		holds = a&v != 0
	}
	if holds {
		return int(in.JT)
	}
	return int(in.JF)
}
