package oracle

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

const requireVariable = "SANDBOXD_REQUIRE_ORACLES"

// call is one entry into the kernel.
type call struct {
	arch uint32
	nr   uint32
	args [6]uint64
}

// entries are the architectures' numbers as a process on ours can present them, and some that none can.
var entries = []uint32{seccomp.AuditArch("amd64"), seccomp.AuditArch("arm64"), 0x40000003 /* i386 */, 0x40000028 /* arm */, 0, 1<<32 - 1}

const (
	x32     = 1 << 30
	noCall  = 1<<32 - 1
	allArgs = 1<<64 - 1
)

// expected is what we answer, given the answer of an oracle that has the plain meaning of the profile. This is the whole list of deliberate
// differences; the arguments that the kernel cuts to 32 bits are the other half of it, in asked.
func expected(p seccomp.Profile, arch string, c call, oracle uint32) uint32 {
	enosys := uint32(seccomp.Errno(syscall.ENOSYS))
	switch {
	case c.arch != seccomp.AuditArch(arch):
		return uint32(seccomp.KillProcess) // every foreign entry
	case arch == "amd64" && c.nr >= x32 && c.nr != noCall:
		return uint32(seccomp.KillProcess) // gVisor takes x32 numbers for unknown ones
	case seccomp.Name(arch, int(c.nr)) == "":
		return enosys // unknown numbers: the oracles give the default
	}
	if _, refusing := p.Default.Errno(); refusing && int(c.nr) > newest(p, arch) {
		return enosys // newer than anything the profile speaks of
	}
	return oracle
}

func newest(p seccomp.Profile, arch string) int {
	n := -1
	for _, r := range p.Rules {
		for _, name := range r.Calls {
			if number, ok := seccomp.Number(arch, name); ok {
				n = max(n, number)
			}
		}
	}
	return n
}

// asked is the call as an oracle is asked about it: with the arguments as the kernel sees them.
func asked(arch string, c call) call {
	name := seccomp.Name(arch, int(c.nr))
	for i := range c.args {
		if seccomp.Low32(name, i) {
			c.args[i] &= 0xffffffff
		}
	}
	return c
}

// calls are all numbers at all entries, and for those that the profile tests arguments of, their combinations at the boundaries.
func calls(p seccomp.Profile, arch string) []call {
	edges := map[uint32][6][]uint64{}
	for _, r := range p.Rules {
		for _, name := range r.Calls {
			n, ok := seccomp.Number(arch, name)
			if !ok {
				continue
			}
			e := edges[uint32(n)]
			for _, t := range r.Tests {
				v := t.Value
				e[t.Arg] = append(e[t.Arg], v, v-1, v+1, v^1<<32, v|1<<63, v&0xffffffff, v^t.Mask&-t.Mask)
			}
			edges[uint32(n)] = e
		}
	}
	var all []call
	numbers := []uint32{500, 1000, x32 - 1, x32, x32 | 1, x32 | 41, x32 | 512, 1 << 31, 3 << 30, noCall - 1, noCall}
	for n := range uint32(480) {
		numbers = append(numbers, n)
	}
	for _, entry := range entries {
		for _, n := range numbers {
			all = append(all, call{entry, n, [6]uint64{}}, call{entry, n, [6]uint64{allArgs, allArgs, allArgs, allArgs, allArgs, allArgs}})
		}
	}
	for n, e := range edges {
		for _, args := range combinations(e) {
			for _, entry := range entries {
				all = append(all, call{entry, n, args})
			}
		}
	}
	return all
}

// combinations of up to a few hundred argument vectors: all pairs matter more than all of everything.
func combinations(e [6][]uint64) [][6]uint64 {
	vectors := [][6]uint64{{}}
	for i := range e {
		values := append([]uint64{0, allArgs}, e[i]...)
		if len(e[i]) == 0 {
			continue
		}
		slices.Sort(values)
		values = slices.Compact(values)
		var more [][6]uint64
		for k, v := range vectors {
			for j, value := range values {
				if len(vectors)*len(values) > 2000 && (j+k)%4 != 0 {
					continue
				}
				v[i] = value
				more = append(more, v)
			}
		}
		vectors = more
	}
	return vectors
}

// profiles are moby's default, hand-made ones and random ones, without conditions.
func profiles(t *testing.T, arch string) map[string]seccomp.Profile {
	t.Helper()
	all := map[string]seccomp.Profile{}
	for _, kernel := range []string{"4.4", "6.18"} {
		p, err := seccomp.RuntimeDefault(arch, kernel)
		if err != nil {
			t.Fatal(err)
		}
		if all["moby on "+kernel], err = p.Resolved(arch); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		all[fmt.Sprintf("random %d", i)] = randomProfile(random)
	}
	return all
}

// randomProfile has one action a call, since the oracles disagree with each other about more: libseccomp lets a rule without arguments swallow
// the rest, gVisor takes the first match, we the strictest.
func randomProfile(r *rand.Rand) seccomp.Profile {
	actions := []seccomp.Action{seccomp.Allow, seccomp.Errno(1), seccomp.Errno(38), seccomp.Errno(13), seccomp.Trap, seccomp.KillThread, seccomp.KillProcess}
	names := []string{"read", "mmap", "socket", "clone", "personality", "ioctl", "prctl", "getpriority", "sendto", "futex", "openat", "renameat", "openat2"}
	values := []uint64{0, 1, 2, 40, 0x5412, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1<<32 + 1, 5<<32 + 7}
	p := seccomp.Profile{Default: actions[r.IntN(len(actions))]}
	for _, name := range names {
		action := actions[r.IntN(len(actions))]
		if r.IntN(4) == 0 || action == p.Default {
			continue
		}
		for range 1 + r.IntN(4) {
			rule := seccomp.Rule{Calls: []string{name}, Action: action}
			for arg := range uint8(4) {
				if r.IntN(3) != 0 {
					continue
				}
				test := seccomp.Test{Arg: arg, Op: seccomp.Op(r.IntN(6)), Mask: allArgs, Value: values[r.IntN(len(values))]}
				if test.Op == seccomp.Equal && r.IntN(2) == 0 {
					test.Mask = []uint64{0x7e020000, 0xf, 0x1_00000001, 0xffffffff}[r.IntN(4)]
					test.Value &= test.Mask
				}
				rule.Tests = append(rule.Tests, test)
			}
			p.Rules = append(p.Rules, rule)
		}
	}
	return p
}

// TestGVisor: our program answers as gVisor's does, and our simulator as gVisor's interpreter.
func TestGVisor(t *testing.T) {
	arch := runtime.GOARCH
	for name, p := range profiles(t, arch) {
		mine := bare(t, p, arch)
		for _, optimize := range []bool{false, true} {
			if !optimize && strings.HasPrefix(name, "random") {
				continue // thousands of instructions
			}
			theirs := ours(byGVisor(t, p, arch, optimize))
			for i, c := range calls(p, arch) {
				answer := theirs.Run(c.arch, uint64(c.nr), asked(arch, c).args)
				compare(t, name, p, arch, mine, c, answer)
				if i%5 == 0 && optimize {
					if got, want := mine.Run(c.arch, uint64(c.nr), c.args), interpreted(t, mine, c); got != want {
						t.Fatalf("%s: %+v: simulator %#x, gVisor's interpreter %#x", name, c, got, want)
					}
				}
			}
			if name == "moby on 6.18" {
				t.Logf("moby's default: ours %d instructions, gVisor's %d (optimised: %v)", len(mine), len(theirs), optimize)
			}
		}
	}
}

// apart leaves out rules that test an argument which an earlier rule of the call tests too. libseccomp 2.5.4 merges such rules wrongly unless
// both test for equality: with mmap trapped where arg0 > 0x100000001 and where arg0 <= 1, it traps arg0 = 2 too. gVisor and the plain reading
// agree with us there.
func apart(p seccomp.Profile) seccomp.Profile {
	kept := seccomp.Profile{Default: p.Default}
	seen := map[string]map[uint8]bool{}
	for _, r := range p.Rules {
		arguments := seen[r.Calls[0]]
		if arguments != nil && (len(r.Tests) == 0 || slices.ContainsFunc(r.Tests, func(t seccomp.Test) bool { return arguments[t.Arg] })) {
			continue
		}
		if arguments == nil {
			arguments = map[uint8]bool{}
			seen[r.Calls[0]] = arguments
		}
		for _, t := range r.Tests {
			arguments[t.Arg] = true
		}
		kept.Rules = append(kept.Rules, r)
	}
	return kept
}

// TestLibseccomp: our program answers as libseccomp's does, on both architectures.
func TestLibseccomp(t *testing.T) {
	program := buildLibseccomp(t)
	for _, arch := range []string{"amd64", "arm64"} {
		for name, p := range profiles(t, arch) {
			if strings.HasPrefix(name, "random") {
				p = apart(p)
			}
			mine := bare(t, p, arch)
			for _, tree := range []bool{false, true} {
				answer := ask(t, program, Question{Arch: arch, Profile: p, Tree: tree})
				for _, c := range calls(p, arch) {
					if c.arch == seccomp.AuditArch(arch) && slices.Contains(answer.Unknown, seccomp.Name(arch, int(c.nr))) {
						continue // newer than this libseccomp
					}
					compare(t, name, p, arch, mine, c, answer.Program.Run(c.arch, uint64(c.nr), asked(arch, c).args))
				}
				if name == "moby on 6.18" {
					t.Logf("moby's default on %s: ours %d instructions, libseccomp's %d (tree: %v); it doesn't know %v", arch, len(mine), len(answer.Program), tree, answer.Unknown)
				}
			}
		}
	}
}

// TestNumbers: libseccomp gives the calls the same numbers as our table.
func TestNumbers(t *testing.T) {
	program := buildLibseccomp(t)
	for _, arch := range []string{"amd64", "arm64"} {
		var names []string
		for n := range 500 {
			if name := seccomp.Name(arch, n); name != "" {
				names = append(names, name)
			}
		}
		answer := ask(t, program, Question{Arch: arch, Profile: seccomp.Profile{Default: seccomp.Allow}, Names: names})
		if len(answer.Numbers) < 300 {
			t.Errorf("%s: libseccomp knows only %d of %d calls", arch, len(answer.Numbers), len(names))
		}
		for name, n := range answer.Numbers {
			if mine, _ := seccomp.Number(arch, name); mine != n {
				t.Errorf("%s: %s is %d in our table, %d in libseccomp's", arch, name, mine, n)
			}
		}
	}
}

func bare(t *testing.T, p seccomp.Profile, arch string) seccomp.Program {
	t.Helper()
	program, err := seccomp.CompileBare(p, arch)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func compare(t *testing.T, name string, p seccomp.Profile, arch string, mine seccomp.Program, c call, oracle uint32) {
	t.Helper()
	if got, want := mine.Run(c.arch, uint64(c.nr), c.args), expected(p, arch, c, oracle); got != want {
		t.Fatalf("%s on %s: entry %#x, number %#x (%s) %#x: ours %v, oracle %v\n%+v", name, arch, c.arch, c.nr, seccomp.Name(arch, int(c.nr)), c.args,
			seccomp.Action(got), seccomp.Action(want), p)
	}
}

func ask(t *testing.T, program string, q Question) Answer {
	t.Helper()
	in, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program)
	c.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("libseccomp: %v\n%s%s", err, errs.String(), in)
	}
	var a Answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// buildLibseccomp builds the oracle, or skips by name.
func buildLibseccomp(t *testing.T) string {
	t.Helper()
	missing := t.Skipf
	if os.Getenv(requireVariable) == "1" {
		missing = t.Fatalf
	}
	if out, err := exec.CommandContext(t.Context(), "pkg-config", "--exists", "--print-errors", "libseccomp").CombinedOutput(); err != nil {
		missing("oracle libseccomp is missing (install libseccomp-dev and pkg-config): %v %s", err, out)
	}
	program := filepath.Join(t.TempDir(), "libseccomp")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./libseccomp")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := c.CombinedOutput(); err != nil {
		missing("oracle libseccomp doesn't build: %v\n%s", err, out)
	}
	return program
}
