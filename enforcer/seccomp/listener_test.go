package seccomp

import (
	"runtime"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// TestListenersAskAndNothingElse compares the programs call by call: what the kernel answers by itself is the same, what it asks about is what the
// listener is for, and what a listener that explains answers is what the filter would have answered.
func TestListenersAskAndNothingElse(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		p.Kernel = "6.18.0"
		plain, err := NewFilter("RuntimeDefault", p, arch)
		if err != nil {
			t.Fatal(err)
		}
		explaining := plain.Explaining()
		observing, err := plain.Observing(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range []Program{explaining.Program, observing.Program} {
			if err := program.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := explaining.Observing(arch); err == nil {
			t.Fatal("a filter that asks about refusals was made to let all go on")
		}
		audit := AuditArch(arch)
		rapid.Check(t, func(t *rapid.T) {
			nr := rapid.OneOf(rapid.Uint64Range(0, 480), rapid.Uint64()).Draw(t, "nr")
			foreign := rapid.Bool().Draw(t, "foreign")
			arch := audit
			if foreign {
				arch = 0x40000003
			}
			var args [6]uint64
			for i := range args {
				args[i] = rapid.OneOf(rapid.Uint64Range(0, 48), rapid.Uint64()).Draw(t, "arg")
			}
			want := Action(plain.Program.Run(arch, nr, args))
			e, fails := want.Errno()
			asked := fails && e != 0 && e != syscall.ENOSYS
			switch got := Action(explaining.Program.Run(arch, nr, args)); {
			case asked && got != notify, !asked && got != want:
				t.Fatalf("explaining: %d answers %v, the filter %v", nr, got, want)
			case asked && explaining.Answer(arch, int32(nr), args) != e:
				t.Fatalf("explaining: %d is answered %v, the filter %v", nr, explaining.Answer(arch, int32(nr), args), e)
			}
			name := ""
			if nr < 1<<31 {
				name = Name(goarch(arch), int(nr))
			}
			gate := !foreign && slices.Contains(gateCalls[:], name)
			switch got := Action(observing.Program.Run(arch, nr, args)); {
			case want.permits() && !gate && got != notify, want.permits() && gate && got != Allow, !want.permits() && got != want:
				t.Fatalf("observing: %d answers %v, the filter %v", nr, got, want)
			}
		})
		if e := explaining.Answer(audit, int32(number(t, arch, "getpid")), [6]uint64{}); e != syscall.EPERM {
			t.Errorf("a call that wasn't to be asked about is answered %v: it must never go on", e)
		}
	}
}

func goarch(audit uint32) string {
	for _, m := range machines {
		if m.audit == audit {
			return m.goarch
		}
	}
	return ""
}

func TestOnlyCompiledFiltersAreObserved(t *testing.T) {
	for _, program := range []Program{nil, {{Code: opReturn, K: uint32(Allow)}}} {
		if _, err := (Filter{Profile: "x", Program: program}).Observing(runtime.GOARCH); err == nil {
			t.Errorf("%v was taken", program)
		}
	}
	if f := (Filter{Profile: "Unconfined"}).Explaining(); f.Listener != "" || f.Program != nil {
		t.Errorf("a filter that isn't there explains: %+v", f)
	}
}
