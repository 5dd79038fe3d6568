package seccomp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Profile is a seccomp profile in the sense of the OCI runtime specification (§linux, seccomp) with moby's conditions still in it.
//
// Where several rules match one call the strictest wins, in the kernel's own order of actions. Runtimes differ here (libseccomp lets a rule
// without arguments swallow the others); strictest is never looser than any of them.
type Profile struct {
	// Default is the action where no rule matches.
	Default Action
	Rules   []Rule
	// Kernel is the release that minKernel conditions are judged by ("6.1.0-13-amd64"). Empty: such a condition is an error at Compile.
	Kernel string
}

// Rule gives a set of calls an action, where all tests hold.
type Rule struct {
	// Calls are names from the table of all architectures; those that this architecture doesn't have are skipped, as runtimes do.
	Calls  []string
	Tests  []Test
	Action Action
	// Includes must all apply and Excludes must not for the rule to count. The zero value is no condition.
	Includes, Excludes Condition
}

// Condition is moby's includes or excludes. Children never hold a capability, so a rule that includes one never counts.
type Condition struct {
	Caps   []string
	Arches []string // GOARCH for the two that we know; others never match
	// MinKernel is "MAJOR.MINOR".
	MinKernel string
}

// Op compares an argument with a value; all comparisons are unsigned.
type Op uint8

// The comparisons of SCMP_CMP_*. MASKED_EQ is Equal with a Mask.
const (
	Equal Op = iota
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
)

// Test is (argument[Arg] & Mask) Op Value.
type Test struct {
	Arg   uint8
	Op    Op
	Mask  uint64
	Value uint64
}

// Holds says whether a value of the argument passes.
func (t Test) Holds(argument uint64) bool {
	v := argument & t.Mask
	switch t.Op {
	case Equal:
		return v == t.Value
	case NotEqual:
		return v != t.Value
	case Less:
		return v < t.Value
	case LessEqual:
		return v <= t.Value
	case Greater:
		return v > t.Value
	default:
		return v >= t.Value
	}
}

// Resolved is the profile with the rules that count on an architecture, and no conditions.
func (p Profile) Resolved(arch string) (Profile, error) {
	resolved := Profile{Default: p.Default, Kernel: p.Kernel}
	for _, r := range p.Rules {
		counts, err := p.counts(r, arch)
		if err != nil {
			return Profile{}, fmt.Errorf("seccomp: %w", err)
		}
		if counts {
			r.Includes, r.Excludes = Condition{}, Condition{}
			resolved.Rules = append(resolved.Rules, r)
		}
	}
	return resolved, nil
}

// counts says whether a rule applies on this architecture and kernel to a process without capabilities.
func (p Profile) counts(r Rule, arch string) (bool, error) {
	in, ex := r.Includes, r.Excludes
	if len(in.Caps) > 0 || slices.Contains(ex.Arches, arch) || len(in.Arches) > 0 && !slices.Contains(in.Arches, arch) {
		return false, nil
	}
	for _, c := range []struct {
		min  string
		want bool
	}{{in.MinKernel, true}, {ex.MinKernel, false}} {
		if c.min == "" {
			continue
		}
		if p.Kernel == "" {
			return false, fmt.Errorf("rule for %s depends on the kernel (minKernel %s) and Profile.Kernel is not set", r.Calls[0], c.min)
		}
		have, err := kernelVersion(p.Kernel)
		if err != nil {
			return false, err
		}
		need, err := kernelVersion(c.min)
		if err != nil {
			return false, err
		}
		if (slices.Compare(have[:], need[:]) >= 0) != c.want {
			return false, nil
		}
	}
	return true, nil
}

// kernelVersion reads the first two numbers of a release: "6.18.44-fc" and "6.18-rc1" are both 6.18, as moby takes them.
func kernelVersion(release string) (v [2]uint64, err error) {
	major, rest, ok := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if ok {
		if v[0], err = strconv.ParseUint(major, 10, 32); err == nil {
			v[1], err = strconv.ParseUint(minor, 10, 32)
		}
	}
	if !ok || err != nil || v == [2]uint64{} {
		return v, fmt.Errorf("kernel version %q: want MAJOR.MINOR", release)
	}
	return v, nil
}
