package seccomp

import (
	"slices"
	"syscall"
	"testing"
)

// TestReadingOnly: what changes a file without writing to it is answered EROFS, also under a listener; every other call is answered as it was.
func TestReadingOnly(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		profile, err := RuntimeDefault(arch, "6.12.0")
		if err != nil {
			t.Fatal(err)
		}
		plain, err := NewFilter("RuntimeDefault", profile, arch)
		if err != nil {
			t.Fatal(err)
		}
		for name, before := range map[string]Filter{"plain": plain, "explaining": plain.Explaining()} {
			after, err := before.ReadingOnly(arch)
			if err != nil {
				t.Fatal(err)
			}
			var closed []uint64
			for _, call := range attributeCalls {
				if nr, ok := Number(arch, call); ok {
					closed = append(closed, uint64(nr))
				}
			}
			if len(closed) < 14 {
				t.Errorf("%s: %d calls are few", arch, len(closed))
			}
			for nr := range uint64(600) {
				for _, number := range []uint64{nr, nr | 0x40000000} {
					want := before.Program.Run(AuditArch(arch), number, [6]uint64{})
					if slices.Contains(closed, number) {
						want = uint32(Errno(syscall.EROFS))
					}
					if got := after.Program.Run(AuditArch(arch), number, [6]uint64{}); got != want {
						t.Errorf("%s, %s: call %#x is answered %#x, want %#x", arch, name, number, got, want)
					}
				}
			}
			if got := after.Program.Run(0x40000003, 15, [6]uint64{}); got != before.Program.Run(0x40000003, 15, [6]uint64{}) || Action(got).permits() {
				t.Errorf("%s: another architecture's call is answered %#x", arch, got)
			}
			if before.Answers != nil && after.Answer(AuditArch(arch), int32(closed[0]), [6]uint64{}) != syscall.EROFS {
				t.Errorf("%s: its listener says otherwise", arch)
			}
		}
	}
	if _, err := (Filter{Program: Program{{Code: opReturn, K: uint32(Allow)}}}).ReadingOnly("amd64"); err == nil {
		t.Error("a program that isn't the compiler's was changed")
	}
}
