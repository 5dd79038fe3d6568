package seccomp

var namesOf = map[string][]string{"amd64": machines[0].names(), "arm64": machines[1].names()}

// naive is the meaning of a profile under a tightening, written down as slowly and plainly as possible: no tree, no order, no knowledge.
func naive(p Profile, m machine, tightening []Rule, nr uint32, args [6]uint64) Action {
	const enosys = errno | 38
	if m.x32 && nr >= 1<<30 && nr != 1<<32-1 {
		return KillProcess
	}
	names := namesOf[m.goarch]
	name, newest := "", -1
	if nr < uint32(len(names)) {
		name = names[nr]
	}
	for _, r := range p.Rules {
		for _, n := range r.Calls {
			c, _ := lookup(n)
			newest = max(newest, m.number(c))
		}
	}
	if name == "" {
		return enosys
	}
	mine, lifted := strictest(p, m, p.Rules, name, args)
	base, tightened := strictest(p, m, tightening, name, args)
	if !lifted {
		mine = p.Default
		spoken := false
		for _, r := range tightening {
			for _, n := range r.Calls {
				spoken = spoken || n == name
			}
		}
		if _, refusing := p.Default.Errno(); refusing && int(nr) > newest && !spoken {
			mine = enosys
		}
	}
	if tightened && int32(base&0xffff0000) <= int32(mine&0xffff0000) {
		return base
	}
	return mine
}

func strictest(p Profile, m machine, rules []Rule, name string, args [6]uint64) (found Action, any bool) {
	for _, r := range rules {
		if counts, err := p.counts(r, m.goarch); err != nil || !counts {
			continue
		}
		for _, n := range r.Calls {
			holds := n == name
			for _, t := range r.Tests {
				seen := args[t.Arg]
				if Low32(name, int(t.Arg)) {
					seen &= 0xffffffff
					if t.Mask == 1<<64-1 && (t.Op == Equal || t.Op == NotEqual) && int64(t.Value) < 0 && int64(t.Value) >= -1<<31 {
						t.Value &= 0xffffffff
					}
				}
				holds = holds && t.Holds(seen)
			}
			if holds && (!any || int32(r.Action&0xffff0000) < int32(found&0xffff0000)) {
				found, any = r.Action, true
			}
		}
	}
	return found, any
}
