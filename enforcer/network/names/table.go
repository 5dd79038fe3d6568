package names

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
)

// table is a sandbox's names and their synthetic addresses. An address belongs to its name as long as the table lives.
type table struct {
	range4 netip.Prefix
	range6 netip.Prefix // invalid without AAAA
	most   int          // of names that no rule spells out

	mu    sync.RWMutex
	known map[string]int // index of the name's address, or waiting
	given []string       // by index
	open  int            // how many of known no rule spells out
}

// waiting is the index of a name that was asked for and has no address yet.
const waiting = -1

// perBlock: of 256 addresses the first and the last aren't given, since they look like a network and its broadcast to some programs.
const perBlock = 254

func newTable(range4, range6 netip.Prefix, most int) (*table, error) {
	if !range4.Addr().Is4() || range4 != range4.Masked() || range4.Bits() < 8 || range4.Bits() > 24 {
		return nil, fmt.Errorf("names: range %s: want an IPv4 prefix of 8 to 24 bits", range4)
	}
	if range6.IsValid() && (!range6.Addr().Is6() || range6.Addr().Is4In6() || range6 != range6.Masked() || range6.Bits() > 96) {
		return nil, fmt.Errorf("names: range %s: want an IPv6 prefix of at most 96 bits", range6)
	}
	return &table{range4: range4, range6: range6, most: most, known: map[string]int{}}, nil
}

// ask notes that name is asked for, spelled out by a rule or not. False says that this sandbox has asked for too many.
func (t *table) ask(name string, spelled bool) bool {
	t.mu.RLock()
	_, known := t.known[name]
	t.mu.RUnlock()
	if known {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch _, known := t.known[name]; {
	case known:
		return true
	case len(t.known) >= t.capacity(), !spelled && t.open >= t.most:
		return false
	case !spelled:
		t.open++
	}
	t.known[name] = waiting
	return true
}

// addresses are those of name, which was asked for. The IPv6 one is invalid without AAAA.
func (t *table) addresses(name string) (four, six netip.Addr) {
	t.mu.RLock()
	index, known := t.known[name]
	t.mu.RUnlock()
	if !known || index == waiting {
		index = t.give(name)
	}
	return t.at(index)
}

func (t *table) give(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index, known := t.known[name]; known && index != waiting {
		return index
	}
	t.given = append(t.given, name)
	t.known[name] = len(t.given) - 1
	return len(t.given) - 1
}

// name is whose address a is.
func (t *table) name(a netip.Addr) (string, bool) {
	index, ok := t.index(a.Unmap())
	if !ok {
		return "", false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if index >= len(t.given) {
		return "", false
	}
	return t.given[index], true
}

func (t *table) capacity() int { return perBlock << (24 - t.range4.Bits()) }

func (t *table) at(index int) (four, six netip.Addr) {
	offset := uint32(index/perBlock*256 + index%perBlock + 1)
	base := t.range4.Addr().As4()
	binary.BigEndian.PutUint32(base[:], binary.BigEndian.Uint32(base[:])+offset)
	four = netip.AddrFrom4(base)
	if t.range6.IsValid() {
		base := t.range6.Addr().As16()
		binary.BigEndian.PutUint32(base[12:], offset)
		six = netip.AddrFrom16(base)
	}
	return four, six
}

// index is at's inverse.
func (t *table) index(a netip.Addr) (int, bool) {
	var offset uint32
	switch {
	case t.range4.Contains(a):
		base, address := t.range4.Addr().As4(), a.As4()
		offset = binary.BigEndian.Uint32(address[:]) - binary.BigEndian.Uint32(base[:])
	case t.range6.IsValid() && t.range6.Contains(a):
		address := a.As16()
		offset = binary.BigEndian.Uint32(address[12:])
		if base := t.range6.Addr().As16(); [12]byte(address[:12]) != [12]byte(base[:12]) {
			return 0, false
		}
	default:
		return 0, false
	}
	if low := offset % 256; low == 0 || low > perBlock {
		return 0, false
	}
	return int(offset/256)*perBlock + int(offset%256) - 1, true
}
