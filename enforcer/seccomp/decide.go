package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// node is a step of the decision about one call: a test with two ways on, or, with yes == nil, an answer. Equal nodes are one node, so
// comparing pointers compares decisions.
type node struct {
	test    Test
	yes, no *node
	action  Action
}

// decisions makes nodes.
type decisions struct {
	interned map[node]*node
}

func (d *decisions) intern(n node) *node {
	if n.yes == n.no && n.yes != nil {
		return n.yes
	}
	if have, ok := d.interned[n]; ok {
		return have
	}
	made := &n
	d.interned[n] = made
	return made
}

func (d *decisions) answer(a Action) *node { return d.intern(node{action: a}) }

// clause is a rule as far as one call is concerned.
type clause struct {
	tests  []Test
	action Action
	base   bool // from the base tightening
	// then replaces the answer by further clauses (and their end), for what only counts after this one.
	then []clause
	end  Action
}

// call decides one call: the stricter of what the profile says (its strictest matching rule, else its default) and of the tightening.
//
// One chain, strictest first, does it as long as the default is not stricter than the tightening: the default is reached only when nothing
// matched. A tightening weaker than the default counts only once a rule of the profile has lifted the default.
func (d *decisions) call(profile, tightening []clause, def Action) *node {
	var chain, lifts, weak []clause
	for _, c := range tightening {
		if c.base = true; c.action.class() <= def.class() {
			chain = append(chain, c)
		} else {
			weak = append(weak, c)
		}
	}
	for _, c := range profile {
		if c.action.class() <= def.class() {
			chain = append(chain, c)
		} else {
			lifts = append(lifts, c)
		}
	}
	for _, list := range [][]clause{chain, lifts, weak} {
		slices.SortStableFunc(list, strictestFirst)
	}
	for _, c := range lifts {
		for _, w := range weak {
			if w.action.class() <= c.action.class() {
				c.then = append(c.then, w)
			}
		}
		c.end = c.action
		chain = append(chain, c)
	}
	return d.chain(chain, def)
}

func strictestFirst(a, b clause) int {
	if a.action.class() != b.action.class() {
		if a.action.class() < b.action.class() {
			return -1
		}
		return 1
	}
	switch {
	case a.base && !b.base:
		return -1
	case b.base && !a.base:
		return 1
	}
	return 0
}

// walk is one chain being turned into nodes, with what is known of the arguments on the way.
type walk struct {
	*decisions
	chain []clause
	end   Action
	memo  map[string]*node
	left  int // of the steps that may be spent on using what is known
}

// walkLimit bounds how far knowledge of arguments multiplies a chain; the default profile needs a few hundred.
const walkLimit = 4096

func (d *decisions) chain(chain []clause, end Action) *node {
	return d.under(chain, end, nil)
}

func (d *decisions) under(chain []clause, end Action, known []Test) *node {
	w := walk{decisions: d, chain: chain, end: end, memo: map[string]*node{}, left: walkLimit}
	return w.at(0, 0, known)
}

// at decides from test j of clause i on.
func (w *walk) at(i, j int, known []Test) *node {
	if i == len(w.chain) {
		return w.answer(w.end)
	}
	c := w.chain[i]
	if j == len(c.tests) {
		if len(c.then) > 0 {
			return w.under(c.then, c.end, known)
		}
		return w.answer(c.action)
	}
	if w.left--; w.left < 0 {
		known = nil
	}
	key := memoKey(i, j, known)
	if n, ok := w.memo[key]; ok {
		return n
	}
	var n *node
	switch t := c.tests[j]; judged(t, known) {
	case always:
		n = w.at(i, j+1, known)
	case never:
		n = w.at(i+1, 0, known)
	default:
		yes, no := known, known
		switch t.Op {
		case Equal:
			yes = learned(known, t)
		case NotEqual:
			no = learned(known, t)
		}
		n = w.intern(node{test: t, yes: w.at(i, j+1, yes), no: w.at(i+1, 0, no)})
	}
	w.memo[key] = n
	return n
}

func memoKey(i, j int, known []Test) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%d", i, j)
	for _, k := range known {
		fmt.Fprintf(&b, "/%d.%x.%x", k.Arg, k.Mask, k.Value)
	}
	return b.String()
}

// learned adds that the masked argument has the test's value.
func learned(known []Test, t Test) []Test {
	t.Op = Equal
	added := append(slices.Clone(known), t)
	slices.SortFunc(added, func(a, b Test) int {
		if a.Arg != b.Arg {
			return int(a.Arg) - int(b.Arg)
		}
		if a.Mask < b.Mask {
			return -1
		}
		return 1
	})
	return added
}

type judgement uint8

const (
	open judgement = iota
	always
	never
)

func judgementOf(holds bool) judgement {
	if holds {
		return always
	}
	return never
}

// judged says what is certain of a test before the argument is looked at.
func judged(t Test, known []Test) judgement {
	for _, k := range known {
		if k.Arg == t.Arg && k.Mask&t.Mask == t.Mask {
			return judgementOf(t.Holds(k.Value))
		}
	}
	switch {
	case t.Mask == 0:
		return judgementOf(t.Holds(0))
	case t.Op == Equal && t.Value&^t.Mask != 0:
		return never
	case t.Op == NotEqual && t.Value&^t.Mask != 0:
		return always
	case t.Op == Less && t.Value == 0, t.Op == Greater && t.Value >= t.Mask:
		return never
	case t.Op == GreaterEqual && t.Value == 0, t.Op == LessEqual && t.Value >= t.Mask:
		return always
	case t.Op == GreaterEqual && t.Value > t.Mask:
		return never
	case t.Op == Less && t.Value > t.Mask:
		return always
	}
	return open
}
