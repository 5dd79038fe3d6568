package network

import (
	"cmp"
	"math/bits"
	"slices"
)

// portsAt is where a portTable has what rules of one target say, port by port. The zero value is what nobody says anything of.
type portsAt uint32

// portTable holds what the rules of all targets say, port by port. A port that some rule lists has a class, and most looks are one at a bit of a target
// and one at a mark behind it, in as little memory as can be.
type portTable struct {
	// targets has for each, one behind the other: which classes of ports its rules list, a bit for each, in two numbers; the mark of all other ports; and
	// the mark of each class in order. The class [many] has instead how many ports of it are listed, and their pairs of port and mark by port.
	targets []uint32
	// ports are those of the classes, and pages the classes by the lower byte of a port; page says which one by its upper byte. The first is empty.
	ports []uint16
	pages [][256]uint8
	page  [256]uint16
}

const (
	unlisted = 0  // the class of ports that no rule lists
	many     = 63 // the class of those that there was no class for
)

// wanted is a port that is asked for, and its class.
type wanted struct {
	class uint8
	port  uint16
}

// marked is a rule of a target that a table is made of, in the order of the spec.
type marked struct {
	mark  mark
	ports []int // none is all
}

// portLine is a port that a target's rules list.
type portLine struct {
	port uint16
	mark mark
}

func newPortTable() portTable {
	return portTable{targets: []uint32{0, 0, uint32(none)}, ports: make([]uint16, 1), pages: make([][256]uint8, 1)}
}

// give gives a port that a rule lists a class.
func (t *portTable) give(port uint16) {
	page := &t.page[port>>8]
	if *page == 0 {
		*page = uint16(len(t.pages))
		t.pages = append(t.pages, [256]uint8{})
	}
	class := &t.pages[*page][port&255]
	switch {
	case *class != unlisted:
	case len(t.ports) == many:
		*class = many
	default:
		*class = uint8(len(t.ports))
		t.ports = append(t.ports, port)
	}
}

// of is a port with its class.
func (t *portTable) of(port uint16) wanted { return wanted{t.pages[t.page[port>>8]][port&255], port} }

// add makes the lines of one target.
func (t *portTable) add(rules []marked) portsAt {
	rest, first := none, map[int]mark{}
	for _, rule := range rules {
		if len(rule.ports) == 0 {
			rest = rule.mark
			break // what comes after it never matches first
		}
		for _, port := range rule.ports {
			if _, ok := first[port]; !ok {
				first[port] = rule.mark
				t.give(uint16(port))
			}
		}
	}
	lines := make([]portLine, 0, len(first))
	for port, mark := range first {
		lines = append(lines, portLine{uint16(port), mark})
	}
	slices.SortFunc(lines, func(a, b portLine) int {
		return cmp.Or(cmp.Compare(t.of(a.port).class, t.of(b.port).class), cmp.Compare(a.port, b.port))
	})
	at, has := len(t.targets), uint64(0)
	t.targets = append(t.targets, 0, 0, uint32(rest))
	for i, line := range lines {
		class := t.of(line.port).class
		switch {
		case class != many:
			t.targets = append(t.targets, uint32(line.mark))
		case has>>many == 0:
			t.targets = append(t.targets, uint32(len(lines)-i), uint32(line.port), uint32(line.mark))
		default:
			t.targets = append(t.targets, uint32(line.port), uint32(line.mark))
		}
		has |= 1 << class
	}
	t.targets[at], t.targets[at+1] = uint32(has), uint32(has>>32)
	return portsAt(at)
}

// find is the mark of the first rule that matches a port.
func (t *portTable) find(at portsAt, want wanted) mark {
	target := t.targets[at:]
	has := uint64(target[0]) | uint64(target[1])<<32
	line := bits.OnesCount64(has << (63 - want.class&63))
	line &= -int(has >> (want.class & 63) & 1) // there is no branch here that depends on the rules
	if want.class == many && line > 0 {
		return manyLines(target[2+line:]).find(want.port, mark(target[2]))
	}
	return mark(target[2+line])
}

// manyLines are the lines of the class of many.
type manyLines []uint32

func (m manyLines) at(i int) portLine { return portLine{uint16(m[1+2*i]), mark(m[2+2*i])} }

func (m manyLines) find(port uint16, rest mark) mark {
	low, high := 0, int(m[0])
	for low < high {
		switch half := (low + high) / 2; cmp.Compare(m.at(half).port, port) {
		case 0:
			return m.at(half).mark
		case -1:
			low = half + 1
		default:
			high = half
		}
	}
	return rest
}

// listed are the ports that a target's rules list.
func (t *portTable) listed(at portsAt) (ports []uint16) {
	target := t.targets[at:]
	has, line := uint64(target[0])|uint64(target[1])<<32, 3
	for class := range many {
		if has>>class&1 == 1 {
			ports = append(ports, t.ports[class])
			line++
		}
	}
	if has>>many == 1 {
		lines := manyLines(target[line:])
		for i := range int(lines[0]) {
			ports = append(ports, lines.at(i).port)
		}
	}
	return ports
}
