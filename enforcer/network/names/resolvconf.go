package names

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// mostUpstreams is libc's MAXNS.
const mostUpstreams = 3

// ParseResolvConf reads the name servers of a resolv.conf(5), the first three as libc does. Without any the list is empty, and nothing resolves.
func ParseResolvConf(file io.Reader) ([]netip.AddrPort, error) {
	var upstreams []netip.AddrPort
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != "nameserver" || len(upstreams) == mostUpstreams {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("resolv.conf: line %d: nameserver without an address", number)
		}
		address, err := netip.ParseAddr(fields[1])
		if err != nil {
			return nil, fmt.Errorf("resolv.conf: line %d: %w", number, err)
		}
		upstreams = append(upstreams, netip.AddrPortFrom(address.Unmap(), 53))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("resolv.conf: %w", err)
	}
	return upstreams, nil
}
