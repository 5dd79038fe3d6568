package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

//go:generate go run table_generate.go

// call is a system call's name and its numbers.
type call struct {
	name         string
	amd64, arm64 int16
}

// machine is what the compiler knows of an architecture.
type machine struct {
	goarch string
	// audit is AUDIT_ARCH_*, as seccomp_data.arch has it.
	audit uint32
	// x32 says that numbers with bit 30 are another entry to the same kernel (__X32_SYSCALL_BIT).
	x32 bool
}

var machines = [...]machine{
	{goarch: "amd64", audit: 0xc000003e, x32: true},
	{goarch: "arm64", audit: 0xc00000b7},
}

func machineOf(arch string) (machine, error) {
	for _, m := range machines {
		if m.goarch == arch {
			return m, nil
		}
	}
	return machine{}, fmt.Errorf("seccomp: no filter for architecture %q: amd64 and arm64 are known", arch)
}

// AuditArch is the AUDIT_ARCH_* number of a GOARCH, 0 if it isn't one of ours.
func AuditArch(arch string) uint32 {
	m, err := machineOf(arch)
	if err != nil {
		return 0
	}
	return m.audit
}

func (m machine) number(c call) int {
	if m.goarch == "arm64" {
		return int(c.arm64)
	}
	return int(c.amd64)
}

// names maps numbers to names; "" where the kernel has no call.
func (m machine) names() []string {
	var names []string
	for _, c := range calls {
		n := m.number(c)
		if n < 0 {
			continue
		}
		if n >= len(names) {
			names = append(names, make([]string, n+1-len(names))...)
		}
		names[n] = c.name
	}
	return names
}

func lookup(name string) (call, bool) {
	i, ok := slices.BinarySearchFunc(calls[:], name, func(c call, name string) int { return strings.Compare(c.name, name) })
	if !ok {
		return call{}, false
	}
	return calls[i], true
}

// Number is the number of a system call on an architecture; false where it has no such call.
func Number(arch, name string) (int, bool) {
	m, err := machineOf(arch)
	c, ok := lookup(name)
	if err != nil || !ok || m.number(c) < 0 {
		return 0, false
	}
	return m.number(c), true
}

// Name is the name of a number on an architecture, "" where the table has none.
func Name(arch string, nr int) string {
	m, err := machineOf(arch)
	if err != nil {
		return ""
	}
	for _, c := range calls {
		if nr >= 0 && m.number(c) == nr {
			return c.name
		}
	}
	return ""
}

// low32 are the arguments that the kernel takes as 32 bits: what is above is cut off before it looks. A 64-bit comparison would let
// ioctl(fd, 0x100005412) pass a rule against TIOCSTI (CVE-2019-10063 and its kin), so they are compared as the kernel sees them.
var low32 = [...]struct {
	name string
	args []uint8
}{
	{"bpf", []uint8{0}},
	{"clone", []uint8{0}}, // lower_32_bits(clone_flags)
	{"fcntl", []uint8{1}},
	{"getsockopt", []uint8{1, 2}},
	{"ioctl", []uint8{1}},
	{"keyctl", []uint8{0}},
	{"open", []uint8{1}},
	{"openat", []uint8{2}},
	{"personality", []uint8{0}},
	{"prctl", []uint8{0}},
	{"prlimit64", []uint8{0, 1}},
	{"setsockopt", []uint8{1, 2}},
	{"socket", []uint8{0, 1, 2}},
	{"socketpair", []uint8{0, 1, 2}},
}

// Low32 says whether the kernel takes an argument of a call as 32 bits and we compare it so.
func Low32(name string, arg int) bool {
	for _, n := range low32 {
		if n.name == name {
			return slices.Contains(n.args, uint8(arg))
		}
	}
	return false
}

// narrowed is a test as the kernel sees the argument.
func narrowed(name string, t Test) Test {
	if !Low32(name, int(t.Arg)) {
		return t
	}
	if v := t.Value & t.Mask; int64(v) == int64(int32(v)) && (t.Op == Equal || t.Op == NotEqual) && t.Value&^t.Mask == 0 {
		t.Value &= 0xffffffff // -1 of an int is written with 64 bits in some profiles
	}
	t.Mask &= 0xffffffff
	return t
}
