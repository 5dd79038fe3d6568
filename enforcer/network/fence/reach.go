package fence

import (
	"cmp"
	"net/netip"
	"slices"
)

// reached are the elements of both sets for ranges of addresses, from each first to each last: sorted, and without those that lie in others or touch.
func reached(ranges [][2]netip.Addr) (of4, of6 []element) {
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b [2]netip.Addr) int {
		return cmp.Or(cmp.Compare(a[0].BitLen(), b[0].BitLen()), a[0].Compare(b[0]))
	})
	for i := 0; i < len(ranges); {
		first, last := ranges[i][0], ranges[i][1]
		for i++; i < len(ranges) && ranges[i][0].BitLen() == first.BitLen(); i++ {
			if next := last.Next(); next.IsValid() && next.Less(ranges[i][0]) {
				break
			}
			if last.Less(ranges[i][1]) {
				last = ranges[i][1]
			}
		}
		into := &of4
		if first.Is6() {
			into = &of6
		}
		*into = append(*into, element{address: first})
		if behind := last.Next(); behind.IsValid() { // an interval without an end goes up to the last address there is
			*into = append(*into, element{behind, true})
		}
	}
	return of4, of6
}

// Reach is what a fence lets through to the relay: connections to these addresses, from each first to each last one, and datagrams to them too or not.
type Reach struct {
	Ranges    [][2]netip.Addr
	Datagrams bool
}

// elements are those of each set.
func (r Reach) elements() map[string][]element {
	of4, of6 := reached(r.Ranges)
	all := map[string][]element{reach4: of4, reach6: of6}
	if r.Datagrams {
		all[datagrams4], all[datagrams6] = of4, of6
	}
	return all
}

func (r Reach) equal(other Reach) bool {
	return r.Datagrams == other.Datagrams && slices.Equal(r.Ranges, other.Ranges)
}

// texts are the lines that a reading has when these elements are in the sets.
func (r Reach) texts() (lines []string) {
	for set, elements := range r.elements() {
		for _, e := range elements {
			lines = append(lines, set+" "+e.text())
		}
	}
	return slices.Sorted(slices.Values(lines))
}

// ReachText is what the row "fence.reach" of [Check] says while a fence of this plan lets that through to the relay, and nothing else.
func (p Plan) ReachText(r Reach) string {
	if !p.hasReach() {
		return ""
	}
	return digestText(reachLines, r.texts())
}

// WithoutDatagrams is the plan without the sockets that datagrams take, for who may make no raw socket (CAP_NET_RAW).
func (p Plan) WithoutDatagrams() Plan {
	p.Sockets = slices.DeleteFunc(slices.Clone(p.Sockets), func(s Socket) bool {
		return slices.Contains([]string{socketDatagrams4, socketDatagrams6, socketAnswer4, socketAnswer6}, s.Name)
	})
	return p
}

// Datagrams says whether the fence can let datagrams through.
func (p Plan) Datagrams() bool { return p.socket(socketAnswer4) >= 0 }

// hasReach says whether the fence has sets of addresses.
func (p Plan) hasReach() bool { return p.Variant == VariantAnyIP }
