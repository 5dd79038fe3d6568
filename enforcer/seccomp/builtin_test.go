package seccomp

import (
	"runtime"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func mustBuiltin(t testing.TB, name, arch string) Program {
	t.Helper()
	p, err := Builtin(name, arch, "6.18.0")
	if err != nil {
		t.Fatal(err)
	}
	return mustCompile(t, p, arch)
}

// TestBuiltins has what each edit is for: a call, and whether it passes.
func TestBuiltins(t *testing.T) {
	const rw, rx, rwx, anonymous = 3, 5, 7, 0x22
	eperm := Errno(syscall.EPERM)
	rows := []struct {
		profile, call string
		args          [6]uint64
		want          Action
	}{
		{"strict", "mmap", [6]uint64{0, 4096, rw, anonymous}, Allow},
		{"strict", "mmap", [6]uint64{0, 4096, rx, 2}, Allow}, // the text of a library
		{"strict", "mmap", [6]uint64{0, 4096, rx, anonymous}, eperm},
		{"strict", "mmap", [6]uint64{0, 4096, rwx, 2}, eperm},
		{"strict", "mprotect", [6]uint64{0, 4096, 1}, Allow}, // relro
		{"strict", "mprotect", [6]uint64{0, 4096, rx}, eperm},
		{"strict", "pkey_mprotect", [6]uint64{0, 4096, rx}, eperm},
		{"strict", "memfd_create", [6]uint64{}, eperm},
		{"strict", "splice", [6]uint64{}, eperm},
		{"strict", "shmget", [6]uint64{}, eperm},
		{"strict", "io_setup", [6]uint64{}, eperm},
		{"strict", "socket", [6]uint64{1, 1}, Allow},
		{"strict", "socket", [6]uint64{16, 3}, Errno(syscall.EAFNOSUPPORT)},
		{"default", "mmap", [6]uint64{0, 4096, rwx, anonymous}, Allow},
		{"default", "mbind", [6]uint64{}, eperm},
		{"default", "personality", [6]uint64{0x40000}, eperm},
		{"jit", "mmap", [6]uint64{0, 4096, rwx, anonymous}, Allow},
		{"jit", "personality", [6]uint64{0x40000}, Allow},
		{"jit", "personality", [6]uint64{0x400000}, eperm}, // READ_IMPLIES_EXEC
		{"jit", "mbind", [6]uint64{}, eperm},
		{"gpu", "mbind", [6]uint64{}, Allow},
		{"gpu", "move_pages", [6]uint64{}, Allow},
		{"gpu", "move_pages", [6]uint64{1}, eperm},
		{"gpu", "ptrace", [6]uint64{}, eperm},
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, row := range rows {
			answer := Action(mustBuiltin(t, row.profile, arch).Run(AuditArch(arch), number(t, arch, row.call), row.args))
			if answer != row.want {
				t.Errorf("%s, %s: %s%v answers %v, want %v", arch, row.profile, row.call, row.args, answer, row.want)
			}
		}
	}
	for _, b := range Builtins() {
		if b.Reason == "" {
			t.Errorf("%s has no reason", b.Name)
		}
		for _, edit := range b.Edits {
			if edit.Reason == "" || len(edit.Rules) == 0 {
				t.Errorf("%s: an edit without a reason or a rule: %+v", b.Name, edit)
			}
			for _, r := range edit.Rules {
				for _, name := range r.Calls {
					if _, ok := lookup(name); !ok {
						t.Errorf("%s: %q is no system call", b.Name, name)
					}
				}
			}
		}
	}
	if _, err := Builtin("stict", "amd64", "6.18.0"); err == nil || err.Error() != `seccomp profile: sandboxd has no profile "stict"; it has [strict default jit gpu]; nearest is strict` {
		t.Errorf("an unknown profile: %v", err)
	}
}

// TestBuiltinsAreInOrder is what policy.Within stands on: strict never lets through what default doesn't, nor default what jit or gpu doesn't.
func TestBuiltinsAreInOrder(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		strict, usual := mustBuiltin(t, "strict", arch), mustBuiltin(t, "default", arch)
		wider := []Program{mustBuiltin(t, "jit", arch), mustBuiltin(t, "gpu", arch)}
		if !slices.Equal(usual, mustCompile(t, mustDefault(t, arch), arch)) {
			t.Errorf("%s: default isn't RuntimeDefault", arch)
		}
		interesting := []uint64{0, 1, 2, 3, 4, 5, 7, 8, 0x10, 0x20, 0x22, 0x40000, 0x400000, 0x5412, 1 << 32, 1<<64 - 1}
		rapid.Check(t, func(t *rapid.T) {
			var args [6]uint64
			for i := range args {
				args[i] = rapid.OneOf(rapid.SampledFrom(interesting), rapid.Uint64()).Draw(t, "arg")
			}
			for nr := range uint64(500) {
				answer := func(p Program) Action { a, _ := p.run(AuditArch(arch), nr, args); return Action(a) }
				if answer(strict).permits() && !answer(usual).permits() {
					t.Fatalf("%s%v: strict allows it, default doesn't", Name(arch, int(nr)), args)
				}
				for _, p := range wider {
					if answer(usual).permits() && !answer(p).permits() {
						t.Fatalf("%s%v: default allows it, one that relaxes it doesn't", Name(arch, int(nr)), args)
					}
				}
			}
		})
	}
}

// TestEncodeComesBack writes every built-in profile in the OCI form; what is read back compiles to the same answers.
func TestEncodeComesBack(t *testing.T) {
	for _, b := range Builtins() {
		p, err := Builtin(b.Name, runtime.GOARCH, "6.18.0")
		if err != nil {
			t.Fatal(err)
		}
		text, err := p.Encode(runtime.GOARCH)
		if err != nil {
			t.Fatalf("%s: %v", b.Name, err)
		}
		back, err := ParseProfile(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", b.Name, err, text)
		}
		resolved, err := p.Resolved(runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(mustCompile(t, back, runtime.GOARCH), mustCompile(t, resolved, runtime.GOARCH)) {
			t.Errorf("%s: written and read back it compiles to another program", b.Name)
		}
	}
	if _, err := (Profile{Rules: BaseTightening(), Default: Allow}).Encode("amd64"); err == nil {
		t.Error("a masked inequality was written, which the OCI form hasn't")
	}
}
