package fence

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Proxy is no fence but the relay's socket alone, on a port of the loopback, for a place in which nobody may make rules: there a filter and Landlock hold
// the programs, and this is the port that they are left.
func Proxy(port uint16) Plan {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	return Plan{Variant: VariantProxy, Sockets: []Socket{{Name: socketRelay4, Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Address: address.String(),
		Options: []Option{{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}}}}}
}

// ProxyAddress is where the relay of a plan of [Proxy] is found; the zero value for any other plan.
func (p Plan) ProxyAddress() netip.AddrPort {
	if p.Variant != VariantProxy || len(p.Sockets) == 0 {
		return netip.AddrPort{}
	}
	at, err := netip.ParseAddrPort(p.Sockets[0].Address)
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}
