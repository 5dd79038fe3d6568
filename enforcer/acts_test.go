package enforcer

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

func actsPlan(t *testing.T, arch string) Plan {
	t.Helper()
	profile, err := seccomp.RuntimeDefault(arch, "6.12.0")
	if err != nil {
		t.Fatal(err)
	}
	filter, err := seccomp.NewFilter("RuntimeDefault", profile, arch)
	if err != nil {
		t.Fatal(err)
	}
	return Plan{Seccomp: filter, Landlock: landlock.For(6, nil, nil), SetIDs: true}
}

// Every call of the table is refused by the default filter on both architectures, where they have it: the table has no row that says nothing.
func TestActsOfTheDefaultFilter(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		acts := Acts(actsPlan(t, arch), arch)
		for _, call := range actCalls {
			if _, exists := call.Number(arch); !exists {
				continue
			}
			if !slices.ContainsFunc(acts, func(a Act) bool { return a.Name == "seccomp."+call.Name }) {
				t.Errorf("%s: %s is let through", arch, call.Name)
			}
		}
		for _, act := range acts {
			ending := slices.Contains([]string{"seccomp.x32 getpid", "seccomp." + ForeignAct}, act.Name)
			if act.Alone != ending || ending != slices.Equal(act.Want, []string{killed}) || len(act.Want) == 0 {
				t.Errorf("%s: %+v", arch, act)
			}
		}
	}
}

// Each right that a ruleset handles has its act, but those that are granted everywhere, and a right that isn't handled has none.
func TestActsOfEachRight(t *testing.T) {
	granted := map[uint64]bool{
		unix.LANDLOCK_ACCESS_FS_EXECUTE: true, unix.LANDLOCK_ACCESS_FS_READ_FILE: true, unix.LANDLOCK_ACCESS_FS_READ_DIR: true,
		// Not on a kernel that there is to try: nobody listens on a path of the sandbox.
		unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX: true,
	}
	all := landlock.For(9, nil, nil)
	for bit := uint64(1); bit != 0; bit <<= 1 {
		for kind, rules := range map[string]landlock.Ruleset{
			"fs": {HandledFS: all.HandledFS & bit}, "net": {HandledNet: all.HandledNet & bit}, "scope": {Scoped: all.Scoped & bit},
		} {
			handled := rules.HandledFS != 0 || rules.HandledNet != 0 || rules.Scoped != 0
			want := handled && (kind != "fs" || !granted[bit])
			if got := len(landlockActs(Plan{Landlock: rules})) > 0; got != want {
				t.Errorf("%s %#x: acts %t, want %t", kind, bit, got, want)
			}
		}
	}
}

func TestCheckActs(t *testing.T) {
	acts := []Act{{Name: "a", Want: []string{"EPERM"}}, {Name: "b", Want: []string{"EACCES", "EXDEV"}}, {Name: "c", Want: []string{"EPERM"}}}
	var got []string
	for _, row := range CheckActs(acts, map[string]string{"a": "let through", "b": "EXDEV", "d": "EPERM"}) {
		if row.Evidence != policy.EvidenceProbe {
			t.Errorf("%+v", row)
		}
		got = append(got, row.Control+" "+row.Got+map[bool]string{true: " held", false: ""}[row.Held])
	}
	if text := strings.Join(got, ", "); text != "a let through, b EXDEV held, c not tried" {
		t.Error(text)
	}
	if (policy.Verdict{Rows: CheckActs(nil, nil)}).Held() {
		t.Error("no act at all holds")
	}
}

func TestConfinementDigest(t *testing.T) {
	p := actsPlan(t, "amd64")
	other := p
	other.Identity = Identity{UID: 7, GID: 7}
	looser := other
	looser.Seccomp = seccomp.Filter{}
	if p.ConfinementDigest() != other.ConfinementDigest() || p.ConfinementDigest() == looser.ConfinementDigest() || other.Digest() == p.Digest() {
		t.Error("digests")
	}
}
