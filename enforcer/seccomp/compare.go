package seccomp

import (
	"runtime"
	"slices"
)

// Wider is a call that a profile allows beyond RuntimeDefault.
type Wider struct {
	Call string `json:"call"`
	// Some says that RuntimeDefault allows the call too, with other arguments than Args.
	Some bool `json:"some,omitzero"`
	// Args are an example that only the profile allows, where it depends on arguments.
	Args *[6]uint64 `json:"args,omitempty"`
	// Group and Why are empty for a call of no group.
	Group string `json:"group,omitempty"`
	Why   string `json:"why,omitempty"`
	// Dangerous says that sandboxd refuses it on top of any profile: the profile asks for what it doesn't get.
	Dangerous bool `json:"dangerous"`
}

// Comparison is what there is to say of a profile.
type Comparison struct {
	// Allows and Tighter count calls: those that the profile allows, if only with some arguments, and those that RuntimeDefault allows and it doesn't.
	Allows  int `json:"allows"`
	Tighter int `json:"tighter"`
	// Wider are in the order of names.
	Wider []Wider `json:"wider"`
	// Unusable says why no child could start under it; empty for a profile that works.
	Unusable string `json:"unusable,omitempty"`
}

// Dangerous are the names of the dangerous calls.
func (c Comparison) Dangerous() []string {
	var names []string
	for _, w := range c.Wider {
		if w.Dangerous {
			names = append(names, w.Call)
		}
	}
	return names
}

// Compare holds a profile against RuntimeDefault, call by call. Actions that only log count as allowed.
func Compare(p Profile, kernel string) (Comparison, error) {
	arch := runtime.GOARCH
	m, err := machineOf(arch)
	if err != nil {
		return Comparison{}, err
	}
	base, err := RuntimeDefault(arch, kernel)
	if err != nil {
		return Comparison{}, err
	}
	if p.Kernel == "" {
		p.Kernel = kernel
	}
	d := &decisions{interned: map[node]*node{}}
	var own, usual, held []*node
	for _, part := range []struct {
		into       *[]*node
		profile    Profile
		tightening []Rule
	}{{&own, p, nil}, {&usual, base, nil}, {&held, p, BaseTightening()}} {
		if *part.into, err = decide(d, part.profile, m, part.tightening); err != nil {
			return Comparison{}, err
		}
	}
	c := Comparison{Wider: []Wider{}}
	for n, name := range m.names() {
		if name == "" {
			continue
		}
		if own[n].can() {
			c.Allows++
		} else if usual[n].can() {
			c.Tighter++
		}
		if own[n] == usual[n] {
			continue
		}
		args, found := example(own[n], usual[n])
		if !found {
			continue
		}
		w := Wider{Call: name, Some: usual[n].can(), Dangerous: !held[n].answer(args).permits()}
		if w.Some || own[n].yes != nil {
			w.Args = &args
		}
		if g, ok := GroupOf(name); ok {
			w.Group, w.Why = g.Name, g.Why
		}
		c.Wider = append(c.Wider, w)
	}
	slices.SortFunc(c.Wider, func(a, b Wider) int {
		if a.Call < b.Call {
			return -1
		}
		return 1
	})
	if _, err := Compile(p, arch); err != nil {
		c.Unusable = err.Error()
	}
	return c, nil
}

// can says whether any arguments pass. Decisions share their ends, so that each is looked at once.
func (n *node) can() bool {
	seen := map[*node]bool{}
	var permits func(*node) bool
	permits = func(n *node) bool {
		if n.yes == nil {
			return n.action.permits()
		}
		if seen[n] {
			return false
		}
		seen[n] = true
		return permits(n.yes) || permits(n.no)
	}
	return permits(n)
}

// answer is the action for some arguments.
func (n *node) answer(args [6]uint64) Action {
	for n.yes != nil {
		if n.test.Holds(args[n.test.Arg]) {
			n = n.yes
		} else {
			n = n.no
		}
	}
	return n.action
}

// mostExamples bounds how many combinations of arguments are tried for one call; the default profile's sockets need a hundred.
const mostExamples = 1 << 16

// example finds arguments that one decision lets through and another doesn't. It tries every combination of the values at which a test of
// either changes its answer, which finds one if there is one, up to the bound: a decision with more is taken for wider, since nobody can say that it isn't.
func example(own, usual *node) (args [6]uint64, found bool) {
	var values [6][]uint64
	for i := range values {
		values[i] = []uint64{0}
	}
	seen := map[*node]bool{}
	var gather func(*node)
	gather = func(n *node) {
		if n.yes == nil || seen[n] {
			return
		}
		seen[n] = true
		at := &values[n.test.Arg]
		*at = append(*at, n.test.Value, n.test.Value+1, n.test.Value-1, n.test.Value|^n.test.Mask, n.test.Mask, ^n.test.Value)
		gather(n.yes)
		gather(n.no)
	}
	gather(own)
	gather(usual)
	combinations := 1
	for i := range values {
		slices.Sort(values[i])
		values[i] = slices.Compact(values[i])
		combinations *= len(values[i])
	}
	for k := range min(combinations, mostExamples) {
		for i := range values {
			args[i] = values[i][k%len(values[i])]
			k /= len(values[i])
		}
		if own.answer(args).permits() && !usual.answer(args).permits() {
			return args, true
		}
	}
	return args, combinations > mostExamples
}
