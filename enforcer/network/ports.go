package network

import (
	"cmp"
	"slices"
)

// portsAt is what rules of one target say, port by port: lines of it in a table, and the mark of all ports that have no line.
type portsAt struct {
	rest     mark
	from, to uint32 // in portTable
}

var nothing = portsAt{rest: none}

type portLine struct {
	port uint16
	mark mark
}

// portTable holds the lines of all targets.
type portTable []portLine

// marked is a rule of a target that a table is made of, in the order of the spec.
type marked struct {
	mark  mark
	ports []int // none is all
}

// add makes the lines of one target.
func (t *portTable) add(rules []marked) portsAt {
	at := portsAt{rest: none, from: uint32(len(*t))}
	first := map[int]mark{}
	for _, rule := range rules {
		if len(rule.ports) == 0 {
			at.rest = rule.mark
			break // what comes after it never matches first
		}
		for _, port := range rule.ports {
			if _, ok := first[port]; !ok {
				first[port] = rule.mark
			}
		}
	}
	for port, mark := range first {
		*t = append(*t, portLine{uint16(port), mark})
	}
	at.to = uint32(len(*t))
	slices.SortFunc((*t)[at.from:], func(a, b portLine) int { return cmp.Compare(a.port, b.port) })
	return at
}

// fewLines are looked at one by one, which is faster than a search.
const fewLines = 8

// find is the mark of the first rule that matches port.
func (t portTable) find(at portsAt, port uint16) mark {
	if at.from == at.to {
		return at.rest
	}
	lines := t[at.from:at.to]
	if len(lines) > fewLines {
		i, ok := slices.BinarySearchFunc(lines, port, func(line portLine, port uint16) int { return int(line.port) - int(port) })
		if !ok {
			return at.rest
		}
		return lines[i].mark
	}
	for _, line := range lines {
		if line.port == port {
			return line.mark
		}
	}
	return at.rest
}
