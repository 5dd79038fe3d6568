package seccomp

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

const kernel = "6.18.44-test"

func mustDefault(t testing.TB, arch string) Profile {
	t.Helper()
	p, err := RuntimeDefault(arch, kernel)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustCompile(t testing.TB, p Profile, arch string) Program {
	t.Helper()
	program, err := Compile(p, arch)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func number(t testing.TB, arch, name string) uint64 {
	t.Helper()
	n, ok := Number(arch, name)
	if !ok {
		t.Fatalf("%s: no %s", arch, name)
	}
	return uint64(n)
}

// TestOperators: each comparison at the edges of both halves of an argument.
func TestOperators(t *testing.T) {
	values := []uint64{0, 1, 5, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x1_00000000, 0x1_00000001, 0x5_00000005, 0x5_00000006, 0x7fffffff_ffffffff, 1 << 63, 1<<64 - 2, 1<<64 - 1}
	masks := []uint64{1<<64 - 1, 0xffffffff, 0xffffffff_00000000, 0x5, 0x5_00000005, 0x80000000_00000000, 0}
	for op := Equal; op <= GreaterEqual; op++ {
		for _, mask := range masks {
			for _, value := range values {
				test := Test{Arg: 3, Op: op, Mask: mask, Value: value}
				p := Profile{Default: Allow, Rules: []Rule{{Calls: []string{"mmap"}, Action: Errno(syscall.EPERM), Tests: []Test{test}}}}
				program, err := CompileBare(p, "amd64")
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range values {
					for _, v := range []uint64{v - 1, v, v + 1, v &^ mask, v ^ value} {
						want := Allow
						if test.Holds(v) {
							want = Errno(syscall.EPERM)
						}
						if got := Action(program.Run(AuditArch("amd64"), 9, [6]uint64{3: v})); got != want {
							t.Fatalf("(%#x & %#x) op %d %#x: got %v, want %v\n%v", v, mask, op, value, got, want, program)
						}
					}
				}
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	eperm, enosys, eacces := Errno(syscall.EPERM), Errno(syscall.ENOSYS), Errno(syscall.EACCES)
	arg0 := func(op Op, v uint64) []Test { return []Test{{Op: op, Mask: 1<<64 - 1, Value: v}} }
	type row struct {
		call string
		args [6]uint64
		want Action
	}
	gate := Rule{Calls: gateCalls[:], Action: Allow}
	for _, c := range []struct {
		name    string
		profile Profile
		rows    []row
	}{
		{"allow list", Profile{Default: eperm, Rules: []Rule{gate, {Calls: []string{"getpid", "listns"}, Action: Allow}}}, []row{
			{"getpid", [6]uint64{}, Allow},
			{"getppid", [6]uint64{}, eperm},
			{"keyctl", [6]uint64{}, enosys},
		}},
		{"deny list", Profile{Default: Allow, Rules: []Rule{{Calls: []string{"getpid"}, Action: eacces}, {Calls: []string{"mount"}, Action: eacces}, {Calls: []string{"getuid"}, Action: KillProcess}}}, []row{
			{"getpid", [6]uint64{}, eacces},
			{"getppid", [6]uint64{}, Allow},
			{"getuid", [6]uint64{}, KillProcess},
			{"mount", [6]uint64{}, eperm}, // both refuse: the tightening's errno
			{"clone3", [6]uint64{}, enosys},
			{"listns", [6]uint64{}, Allow}, // an allowing default speaks for all calls that exist
		}},
		{"newer than the profile", Profile{Default: eperm, Rules: []Rule{gate, {Calls: []string{"openat2"}, Action: eacces}}}, []row{
			{"openat2", [6]uint64{}, eacces},
			{"pidfd_getfd", [6]uint64{}, eperm}, // 438, the tightening's
			{"faccessat2", [6]uint64{}, enosys}, // 439
			{"open_tree", [6]uint64{}, eperm},
		}},
		{"strictest rule wins, wherever it stands", Profile{Default: Allow, Rules: []Rule{
			{Calls: []string{"getpriority"}, Action: Log, Tests: arg0(GreaterEqual, 2)},
			{Calls: []string{"getpriority"}, Action: KillThread, Tests: arg0(Equal, 7)},
			{Calls: []string{"getpriority"}, Action: eacces, Tests: arg0(GreaterEqual, 5)},
			{Calls: []string{"getpriority"}, Action: Allow},
		}}, []row{
			{"getpriority", [6]uint64{1}, Allow},
			{"getpriority", [6]uint64{2}, Log},
			{"getpriority", [6]uint64{5}, eacces},
			{"getpriority", [6]uint64{7}, KillThread},
			{"getpriority", [6]uint64{1<<32 | 7}, eacces},
		}},
		{"a killing default stays above the tightening", Profile{Default: KillProcess, Rules: []Rule{gate,
			{Calls: []string{"ioctl"}, Action: Allow, Tests: []Test{{Arg: 0, Op: Equal, Mask: 1<<64 - 1, Value: 2}}},
			{Calls: []string{"ioctl"}, Action: Trap, Tests: []Test{{Arg: 0, Op: Equal, Mask: 1<<64 - 1, Value: 3}}},
		}}, []row{
			{"ioctl", [6]uint64{1, tiocsti}, KillProcess},
			{"ioctl", [6]uint64{2, tiocsti}, eperm},
			{"ioctl", [6]uint64{2, 0xab_0000_0000 | tiocsti}, eperm},
			{"ioctl", [6]uint64{2, 1}, Allow},
			{"ioctl", [6]uint64{3, tiocsti}, Trap},
			{"keyctl", [6]uint64{}, KillProcess},
		}},
		{"what the kernel cuts off is no way round", Profile{Default: Allow, Rules: []Rule{
			{Calls: []string{"prctl"}, Action: eacces, Tests: arg0(Equal, 4)},
			{Calls: []string{"personality"}, Action: eacces, Tests: arg0(Equal, 1<<64-1)},
			{Calls: []string{"getpriority"}, Action: eacces, Tests: arg0(Equal, 4)},
		}}, []row{
			{"prctl", [6]uint64{0xdead_0000_0004}, eacces},
			{"personality", [6]uint64{0xffffffff}, eacces},
			{"getpriority", [6]uint64{0xdead_0000_0004}, Allow}, // not in the table: 64 bits, as the profile says
		}},
		{"conditions", Profile{Default: eperm, Kernel: kernel, Rules: []Rule{gate,
			{Calls: []string{"getpid"}, Action: Allow, Includes: Condition{Caps: []string{"CAP_SYS_ADMIN"}}},
			{Calls: []string{"getppid"}, Action: Allow, Excludes: Condition{Caps: []string{"CAP_SYS_ADMIN"}}},
			{Calls: []string{"getuid"}, Action: Allow, Includes: Condition{Arches: []string{"s390x"}}},
			{Calls: []string{"geteuid"}, Action: Allow, Excludes: Condition{Arches: []string{"amd64", "arm64"}}},
			{Calls: []string{"getgid"}, Action: Allow, Includes: Condition{MinKernel: "6.18"}},
			{Calls: []string{"getegid"}, Action: Allow, Includes: Condition{MinKernel: "6.19"}},
			{Calls: []string{"gettid"}, Action: Allow, Excludes: Condition{MinKernel: "4.8"}},
		}}, []row{
			{"getpid", [6]uint64{}, eperm}, {"getppid", [6]uint64{}, Allow}, {"getuid", [6]uint64{}, eperm}, {"geteuid", [6]uint64{}, eperm},
			{"getgid", [6]uint64{}, Allow}, {"getegid", [6]uint64{}, eperm}, {"gettid", [6]uint64{}, eperm},
		}},
	} {
		for _, m := range machines {
			t.Run(c.name+"/"+m.goarch, func(t *testing.T) {
				program := mustCompile(t, c.profile, m.goarch)
				for _, r := range c.rows {
					if got := Action(program.Run(m.audit, number(t, m.goarch, r.call), r.args)); got != r.want {
						t.Errorf("%s%x: got %v, want %v", r.call, r.args, got, r.want)
					}
				}
			})
		}
	}
}

func TestGateCallsAreNeeded(t *testing.T) {
	for _, call := range gateCalls {
		for _, test := range [][]Test{nil, {{Op: NotEqual, Mask: 1<<64 - 1, Value: 0}}} {
			_, err := Compile(Profile{Default: Allow, Rules: []Rule{{Calls: []string{call}, Action: Errno(syscall.EPERM), Tests: test}}}, "amd64")
			var g *GateError
			if !errors.As(err, &g) || g.Call != call {
				t.Errorf("a profile that refuses %s %v: got %v", call, test, err)
			}
		}
	}
	if _, err := Compile(Profile{Default: KillProcess}, "arm64"); err == nil {
		t.Error("an empty killing profile compiles")
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, p := range map[string]Profile{
		"unknown call":      {Default: Allow, Rules: []Rule{{Calls: []string{"opne"}}}},
		"argument 6":        {Default: Allow, Rules: []Rule{{Calls: []string{"read"}, Tests: []Test{{Arg: 6}}}}},
		"kernel not said":   {Default: Allow, Rules: []Rule{{Calls: []string{"acct"}, Includes: Condition{MinKernel: "4.8"}}}},
		"kernel unreadable": {Default: Allow, Kernel: "six", Rules: []Rule{{Calls: []string{"acct"}, Includes: Condition{MinKernel: "4.8"}}}},
	} {
		if _, err := Compile(p, "amd64"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Compile(Profile{Default: Allow}, "riscv64"); err == nil {
		t.Error("riscv64 compiles")
	}
	big := Profile{Default: Allow}
	for i := range 5000 {
		big.Rules = append(big.Rules, Rule{Calls: []string{"mmap"}, Action: Trap, Tests: []Test{{Arg: 1, Op: Equal, Mask: 1<<64 - 1, Value: uint64(i) * 77}}})
	}
	if _, err := Compile(big, "amd64"); !errors.Is(err, ErrTooLong) {
		t.Errorf("5000 rules: %v", err)
	}
}

// TestFarJumps: programs in which targets are more than 255 instructions away.
func TestFarJumps(t *testing.T) {
	var p Profile
	p.Default = Errno(syscall.EPERM)
	for i, name := range []string{"mmap", "getpid", "openat", "statx", "futex_wait"} {
		for v := range 120 {
			p.Rules = append(p.Rules, Rule{Calls: []string{name}, Action: Errno(syscall.Errno(v%3 + 1)), Tests: []Test{
				{Arg: uint8(i), Op: Equal, Mask: 1<<64 - 1, Value: uint64(v) << 30}, {Arg: 5, Op: Op(v % 6), Mask: 1<<64 - 1, Value: uint64(v)},
			}})
		}
	}
	for _, m := range machines {
		program, err := CompileBare(p, m.goarch)
		if err != nil {
			t.Fatal(err)
		}
		if len(program) < 1000 {
			t.Fatalf("%d instructions: this test wants a long program", len(program))
		}
		for _, name := range []string{"mmap", "getpid", "openat", "statx", "futex_wait", "read"} {
			nr := number(t, m.goarch, name)
			for v := uint64(0); v < 122; v += 11 {
				for _, five := range []uint64{0, v - 1, v, v + 1, 1 << 40} {
					for arg := range 5 {
						var args [6]uint64
						args[arg], args[5] = v<<30, five
						got, want := Action(program.run1(m.audit, uint32(nr), args)), naive(p, m, nil, uint32(nr), args)
						if got != want {
							t.Fatalf("%s %s%x: got %v, want %v", m.goarch, name, args, got, want)
						}
					}
				}
			}
		}
	}
}

// drawProfile makes profiles that are crowded: few calls, few values, so that rules overlap.
func drawProfile(t *rapid.T) Profile {
	actions := rapid.SampledFrom([]Action{Allow, Allow, Log, trace | 7, Errno(1), Errno(13), Errno(38), Trap, KillThread, KillProcess})
	names := rapid.SampledFrom([]string{"mmap", "socket", "socketpair", "ioctl", "clone", "personality", "ptrace", "keyctl", "read", "renameat", "s390_sthyi", "mseal", "futex_waitv"})
	p := Profile{Default: actions.Draw(t, "default")}
	for range rapid.IntRange(0, 12).Draw(t, "rules") {
		r := Rule{Action: actions.Draw(t, "action"), Calls: rapid.SliceOfN(names, 1, 3).Draw(t, "calls")}
		for range rapid.IntRange(0, 4).Draw(t, "tests") {
			r.Tests = append(r.Tests, Test{
				Arg: rapid.Uint8Range(0, 3).Draw(t, "arg"), Op: Op(rapid.IntRange(0, 5).Draw(t, "op")),
				Mask:  rapid.SampledFrom([]uint64{1<<64 - 1, 1<<64 - 1, 0xffffffff, 0x7e020000, 0xf, 0x1_00000001, 0}).Draw(t, "mask"),
				Value: drawValue.Draw(t, "value"),
			})
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

var drawValue = rapid.OneOf(
	rapid.SampledFrom([]uint64{0, 1, 2, 3, 10, 16, tiocsti, tioclinux, newUser, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1<<32 + 1, 1<<32 + 2, 1 << 63, 1<<64 - 1, 1<<64 - 2}),
	rapid.Uint64(),
)

// TestTreeIsTheNaiveReading: the compiled tree and the plain reading of the profile agree, with and without the tightening.
func TestTreeIsTheNaiveReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		m := rapid.SampledFrom(machines[:]).Draw(t, "machine")
		tightening := rapid.SampledFrom([][]Rule{nil, BaseTightening()}).Draw(t, "tightening")
		program, err := compile(p, m, tightening, nil)
		if err != nil {
			t.Fatal(err)
		}
		numbers := []uint32{1<<30 - 1, 1 << 30, 1<<31 + 5, 1<<32 - 2, 1<<32 - 1}
		numbers = append(numbers, rapid.SliceOfN(rapid.Uint32Range(0, 480), 40, 40).Draw(t, "numbers")...)
		var args [6]uint64
		for i := range args {
			args[i] = drawValue.Draw(t, "argument")
		}
		for _, n := range numbers {
			if got, want := Action(program.run1(m.audit, n, args)), naive(p, m, tightening, n, args); got != want {
				t.Fatalf("number %d (%s) %x: got %v, want %v\n%+v", n, Name(m.goarch, int(n)), args, got, want, p)
			}
		}
		spoken := append(p.Rules, tightening...)
		for _, r := range spoken {
			for _, name := range r.Calls {
				n, ok := Number(m.goarch, name)
				if !ok {
					continue
				}
				for range 3 {
					for i := range 4 {
						args[i] = drawValue.Draw(t, "argument")
					}
					if got, want := Action(program.run1(m.audit, uint32(n), args)), naive(p, m, tightening, uint32(n), args); got != want {
						t.Fatalf("%s %x: got %v, want %v\n%+v", name, args, got, want, p)
					}
				}
			}
		}
	})
}

func (p Program) run1(audit, nr uint32, args [6]uint64) uint32 {
	action, _ := p.run(audit, uint64(nr), args)
	return action
}

// TestTighteningOnlyTightens: with the base tightening no call gets a milder answer than the profile alone gives.
func TestTighteningOnlyTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		m := rapid.SampledFrom(machines[:]).Draw(t, "machine")
		bare, err := compile(p, m, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		tight, err := compile(p, m, BaseTightening(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var args [6]uint64
		for i := range args {
			args[i] = drawValue.Draw(t, "argument")
		}
		for n := range uint32(len(m.names()) + 3) {
			b, got := Action(bare.run1(m.audit, n, args)), Action(tight.run1(m.audit, n, args))
			if got.class() > b.class() {
				t.Fatalf("number %d %x: %v alone, %v tightened", n, args, b, got)
			}
		}
	})
}

// TestDefaultIsSmall holds the budget of DESIGN §13.
func TestDefaultIsSmall(t *testing.T) {
	for _, m := range machines {
		program := mustCompile(t, mustDefault(t, m.goarch), m.goarch)
		total, deepest := 0, 0
		for n := range len(m.names()) {
			_, steps := program.Trace(m.audit, uint64(n), [6]uint64{})
			total, deepest = total+steps, max(deepest, steps)
		}
		mean := float64(total) / float64(len(m.names()))
		t.Logf("%s: %d instructions, mean %.1f and at most %d steps a call", m.goarch, len(program), mean, deepest)
		if len(program) > 200 || mean > 14 {
			t.Errorf("%s: %d instructions, mean %.1f steps", m.goarch, len(program), mean)
		}
	}
}

func BenchmarkCompileDefault(b *testing.B) {
	p := mustDefault(b, "amd64")
	for b.Loop() {
		mustCompile(b, p, "amd64")
	}
}

func ExampleProgram_Run() {
	p, _ := RuntimeDefault("amd64", "6.1")
	program, _ := Compile(p, "amd64")
	fmt.Println(Action(program.Run(AuditArch("amd64"), 41, [6]uint64{2, 1})))  // socket(AF_INET, SOCK_STREAM)
	fmt.Println(Action(program.Run(AuditArch("amd64"), 41, [6]uint64{40, 1}))) // socket(AF_VSOCK, SOCK_STREAM)
	fmt.Println(Action(program.Run(0x40000003, 102, [6]uint64{})))             // i386 socketcall
	// Output:
	// allow
	// errno 97
	// kill process
}
