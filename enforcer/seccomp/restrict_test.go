package seccomp

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRestrictedIsWithin: what is recorded under a profile allows what was used as the profile does, and nothing more.
func TestRestrictedIsWithin(t *testing.T) {
	const arch = "amd64"
	wide := Profile{Default: Allow, Rules: []Rule{{Calls: []string{"mkdir"}, Action: Errno(2)}}}
	for name, p := range map[string]Profile{"default": mustDefault(t, arch), "allow all": wide} {
		p.Kernel = "6.18.0"
		used := []string{"openat", "socket", "clone", "mkdir", "ptrace"}
		restricted, err := p.Restricted(arch, used)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := restricted.Encode(arch); err != nil {
			t.Fatal(err)
		}
		small, err := CompileBare(restricted, arch)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := CompileBare(p, arch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(restricted, arch); err != nil {
			t.Errorf("%s: no child could start: %v", name, err)
		}
		kept := map[string]bool{}
		for _, list := range [][]string{used, gateCalls[:], atAnyTime[:]} {
			for _, call := range list {
				kept[call] = true
			}
		}
		rapid.Check(t, func(t *rapid.T) {
			var args [6]uint64
			for i := range args {
				args[i] = rapid.OneOf(rapid.Uint64Range(0, 48), rapid.Uint64()).Draw(t, "arg")
			}
			for nr := range 500 {
				got, want := small.Allows(arch, nr, args), whole.Allows(arch, nr, args)
				if kept[Name(arch, nr)] && got != want || !kept[Name(arch, nr)] && got {
					t.Fatalf("%s: %s%v: allowed %v, by the profile %v", name, Name(arch, nr), args, got, want)
				}
			}
		})
	}
}
