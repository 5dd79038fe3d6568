package network

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/sandboxd/sandboxd/policy"
)

// MostSpans bounds [Rules.Reach], for each family.
const MostSpans = 512

// Reach are the literal addresses that the rules allow to be connected to on some port: from each first address to each last one, both included, in order,
// with a gap between any two; IPv4 before IPv6. It is for whoever can refuse by address alone before anybody is asked, so it never has less than
// [Rules.Address] allows. It has more where the rules need more than [MostSpans] for a family, whose smallest gaps are filled then, and where translated
// addresses are named, whose inner address only Address looks at.
func (r *Rules) Reach() [][2]netip.Addr {
	if r == nil || r.spec.DenyAll() {
		return nil
	}
	starts := r.starts()
	var spans [][2]netip.Addr
	from := 0 // of this family, in spans
	for i, start := range starts {
		last := LastOf(netip.PrefixFrom(start, 0))
		if i+1 < len(starts) && starts[i+1].BitLen() == start.BitLen() {
			last = starts[i+1].Prev()
		}
		switch {
		case !r.somePort(start):
		case len(spans) > from && spans[len(spans)-1][1].Next() == start:
			spans[len(spans)-1][1] = last
		default:
			spans = append(spans, [2]netip.Addr{start, last})
		}
		if i+1 == len(starts) || starts[i+1].BitLen() != start.BitLen() {
			spans = append(spans[:from:from], fewer(spans[from:], MostSpans)...)
			from = len(spans)
		}
	}
	return spans
}

// SomeName says whether any name may be allowed, on some port.
func (r *Rules) SomeName() bool {
	return r != nil && (r.defaultAllow || slices.ContainsFunc(r.spec.Egress, func(rule policy.EgressRule) bool {
		target, err := policy.ParseTarget(rule.Target)
		return rule.Action == policy.NetworkAllow && err == nil && target.Name != ""
	}))
}

// starts are the addresses at which a judgement may change, in order: the first of each prefix that a rule or a class has, and the one behind it. Between two of them
// all addresses are judged as one.
func (r *Rules) starts() []netip.Addr {
	starts := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	add := func(p netip.Prefix) {
		starts = append(starts, p.Addr())
		if next := LastOf(p).Next(); next.IsValid() {
			starts = append(starts, next)
		}
	}
	for _, rule := range r.spec.Egress {
		if target, err := policy.ParseTarget(rule.Target); err == nil && target.Name == "" {
			add(target.Prefix)
		}
	}
	for _, of := range policy.Ranges() {
		add(of.Prefix)
	}
	slices.SortFunc(starts, func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), a.Compare(b)) })
	return slices.Compact(starts)
}

// somePort says whether a port of the address is allowed, without a look at what the address stands for.
func (r *Rules) somePort(a netip.Addr) bool {
	of := policy.RangeOf(a)
	for _, port := range append(r.listedFor(a), 0) { // no rule lists 0: it stands for all that aren't listed
		var match Match
		if r.literal(&match, a, port, &of); match.Allow {
			return true
		}
	}
	return false
}

// fewer fills the smallest gaps between spans until there are most of them.
func fewer(spans [][2]netip.Addr, most int) [][2]netip.Addr {
	if len(spans) <= most {
		return spans
	}
	gaps := make([]key, 0, len(spans)-1)
	for i := range spans[1:] {
		gaps = append(gaps, gap(spans[i], spans[i+1]))
	}
	order := func(a, b key) int { return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low)) }
	sorted := slices.SortedFunc(slices.Values(gaps), order)
	widest, left := sorted[len(spans)-1-most], len(spans)
	kept := spans[:1:1]
	for i, span := range spans[1:] {
		if left > most && order(gaps[i], widest) <= 0 {
			kept[len(kept)-1][1], left = span[1], left-1
		} else {
			kept = append(kept, span)
		}
	}
	return kept
}

// gap is how far one span is from the next.
func gap(a, b [2]netip.Addr) key {
	from, to := keyOf(a[1]), keyOf(b[0])
	low, borrow := bits.Sub64(to.low, from.low, 0)
	high, _ := bits.Sub64(to.high, from.high, borrow)
	return key{high, low}
}
