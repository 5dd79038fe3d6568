package seccomp

import (
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	const kernel = "6.18.0"
	names := func(c Comparison) (all []string) {
		for _, w := range c.Wider {
			all = append(all, w.Call)
		}
		return all
	}
	compare := func(text string) Comparison {
		t.Helper()
		p, err := ParseProfile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compare(p, kernel)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const gate = `"write","read","rt_sigprocmask","execve","execveat","exit_group"`
	allowing := func(more string) string {
		return `{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":[` + gate + more + `],"action":"SCMP_ACT_ALLOW"}]}`
	}
	if c := compare(defaultJSON); len(c.Wider) != 0 || c.Unusable != "" || c.Tighter != 0 {
		t.Errorf("RuntimeDefault against itself: %+v", c)
	}
	if c := compare(allowing("")); len(c.Wider) != 0 || c.Unusable != "" || c.Allows != 6 || c.Tighter < 200 {
		t.Errorf("six calls: %+v", c)
	}
	c := compare(allowing(`,"bpf","unshare","mbind","lsm_list_modules"`))
	if want := []string{"bpf", "lsm_list_modules", "mbind", "unshare"}; !slices.Equal(names(c), want) {
		t.Errorf("wider: %v, want %v", names(c), want)
	}
	if want := []string{"bpf", "unshare"}; !slices.Equal(c.Dangerous(), want) {
		t.Errorf("dangerous: %v, want %v", c.Dangerous(), want)
	}
	if c.Wider[3].Group != "namespaces" || c.Wider[3].Why == "" || c.Wider[3].Args != nil {
		t.Errorf("unshare: %+v", c.Wider[3])
	}
	// A call that RuntimeDefault allows with some arguments only.
	c = compare(allowing(`,"socket","clone"`))
	if want := []string{"clone", "socket"}; !slices.Equal(c.Dangerous(), want) {
		t.Fatalf("dangerous: %v, want %v", c.Dangerous(), want)
	}
	for _, w := range c.Wider {
		if !w.Some || w.Args == nil {
			t.Errorf("%+v: want an example", w)
		}
	}
	// One that it allows with fewer isn't wider; one with another is.
	one := func(value string) Comparison {
		return compare(`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":[` + gate + `],"action":"SCMP_ACT_ALLOW"},
			{"names":["personality"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":` + value + `,"op":"SCMP_CMP_EQ"}]}]}`)
	}
	if c := one("8"); len(c.Wider) != 0 {
		t.Errorf("personality(8): %+v", c.Wider)
	}
	if c := one("262144"); len(c.Wider) != 1 || c.Wider[0].Dangerous || *c.Wider[0].Args != [6]uint64{262144} {
		t.Errorf("personality(ADDR_NO_RANDOMIZE): %+v", c.Wider)
	}
	// All of it.
	c = compare(`{"defaultAction":"SCMP_ACT_ALLOW"}`)
	for _, want := range []string{"bpf", "init_module", "ptrace", "setns", "mount", "keyctl"} {
		if want == "ptrace" {
			continue // RuntimeDefault allows it since Linux 4.8
		}
		if !slices.Contains(c.Dangerous(), want) {
			t.Errorf("allow everything: %s isn't called dangerous", want)
		}
	}
	if c := compare(`{"defaultAction":"SCMP_ACT_ERRNO"}`); !strings.Contains(c.Unusable, "needs to start its program") {
		t.Errorf("refuse everything: %q", c.Unusable)
	}
}

// TestTighteningHasGroups: a dangerous call is explained by its group.
func TestTighteningHasGroups(t *testing.T) {
	for _, r := range BaseTightening() {
		for _, name := range r.Calls {
			if _, ok := GroupOf(name); !ok {
				t.Errorf("%s is refused and in no group", name)
			}
		}
	}
	seen := map[string]string{}
	for _, g := range groups {
		for _, name := range g.call {
			if _, ok := lookup(name); !ok {
				t.Errorf("%s: %q is no system call", g.Name, name)
			}
			if seen[name] != "" {
				t.Errorf("%s is in %s and in %s", name, seen[name], g.Name)
			}
			seen[name] = g.Name
		}
	}
}
