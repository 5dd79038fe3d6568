package names

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestTableRanges(t *testing.T) {
	none := netip.Prefix{}
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		four, six netip.Prefix
		ok        bool
	}{
		{DefaultRange, DefaultRange6, true},
		{DefaultRange, none, true},
		{prefix("10.1.2.0/24"), prefix("fd00::/96"), true},
		{none, none, false},
		{prefix("10.1.2.0/25"), none, false},
		{prefix("0.0.0.0/0"), none, false},
		{prefix("198.18.0.1/16"), none, false},
		{prefix("fd00::/64"), none, false},
		{DefaultRange, prefix("fd00::/97"), false},
		{DefaultRange, prefix("10.0.0.0/8"), false},
		{DefaultRange, prefix("fd00::1/64"), false},
	} {
		if _, err := newTable(test.four, test.six, 1); (err == nil) != test.ok {
			t.Errorf("%s, %s: %v", test.four, test.six, err)
		}
	}
}

// Whatever is asked, in whatever order: an address, once given, is its name's.
func TestAnAddressStaysWithItsName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, err := newTable(netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("fd00::/64"), 100)
		if err != nil {
			t.Fatal(err)
		}
		owners := map[netip.Addr]string{}
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			name := fmt.Sprint("n", rapid.IntRange(0, 400).Draw(t, "name"))
			if !table.ask(name, rapid.Bool().Draw(t, "spelled")) || rapid.Bool().Draw(t, "missing upstream") {
				continue
			}
			four, six := table.addresses(name)
			for _, a := range []netip.Addr{four, six} {
				if owner, given := owners[a]; given && owner != name {
					t.Fatalf("%s was %s's and is now %s's", a, owner, name)
				}
				owners[a] = name
			}
		}
		for a, want := range owners {
			if got, ok := table.name(a); !ok || got != want {
				t.Fatalf("%s: %q, want %q", a, got, want)
			}
		}
		if table.open > 100 || len(table.known) > table.capacity() {
			t.Fatalf("%d names of wildcards, %d in all", table.open, len(table.known))
		}
	})
}

func TestTableAddresses(t *testing.T) {
	table, err := newTable(DefaultRange, DefaultRange6, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := table.capacity(); got != 256*254 {
		t.Errorf("capacity %d", got)
	}
	for index := range table.capacity() {
		four, six := table.at(index)
		back4, ok4 := table.index(four)
		back6, ok6 := table.index(six)
		if !ok4 || !ok6 || back4 != index || back6 != index || !DefaultRange.Contains(four) || !DefaultRange6.Contains(six) {
			t.Fatalf("index %d: %s is %d, %s is %d", index, four, back4, six, back6)
		}
		if last := four.As4()[3]; last == 0 || last == 255 {
			t.Fatalf("index %d: %s looks like a network or a broadcast", index, four)
		}
	}
	for _, a := range []string{"198.18.0.0", "198.18.0.255", "198.18.0.1", "198.19.255.1", "127.0.0.1", "fd5b::1", "fd5b::1:0:0:1", "::1", "::ffff:198.18.0.1"} {
		if name, ok := table.name(netip.MustParseAddr(a)); ok {
			t.Errorf("%s is %q's; nothing was given", a, name)
		}
	}
	if !table.ask("a.example.net", false) || table.ask("b.example.net", false) || !table.ask("a.example.net", false) || !table.ask("c.example.net", true) {
		t.Error("one name that no rule spells out, and no second one, and those that are spelled out")
	}
	four, _ := table.addresses("a.example.net")
	if name, ok := table.name(netip.MustParseAddr("::ffff:" + four.String())); !ok || name != "a.example.net" {
		t.Errorf("mapped %s: %q", four, name)
	}
}
