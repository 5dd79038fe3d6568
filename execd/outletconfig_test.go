package execd

import (
	"net"
	"net/netip"
	"testing"
)

// TestOwnAddresses: every address of a link of this host is among those that nothing is carried to, and so is what stands for names.
func TestOwnAddresses(t *testing.T) {
	own, err := ownAddresses()
	if err != nil {
		t.Fatal(err)
	}
	closed := func(address netip.Addr) bool {
		for _, prefix := range own {
			if prefix.Contains(address) {
				return true
			}
		}
		return false
	}
	want := []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.19.255.1"), netip.MustParseAddr("fd5a::1"), netip.MustParseAddr("fd5b::1")}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil && !prefix.Addr().IsLoopback() && link.Flags&net.FlagLoopback == 0 {
				want = append(want, prefix.Addr())
			}
		}
	}
	for _, address := range want {
		if !closed(address) {
			t.Errorf("%s is open", address)
		}
	}
	if closed(netip.MustParseAddr("45.9.1.1")) {
		t.Error("somebody else's address is closed")
	}
}
