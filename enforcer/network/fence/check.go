package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Row is one thing that should be and one that is.
type Row struct {
	Control   string
	Want, Got string
	Held      bool
}

// FallbackLinks are devices that the kernel puts into each new network namespace where these modules are loaded and
// net.core.fb_tunnels_only_for_init_net isn't set. Nobody in the sandbox can bring them up or give them an address.
var FallbackLinks = []string{"erspan0", "gre0", "gretap0", "ip6_vti0", "ip6gre0", "ip6tnl0", "ip_vti0", "sit0", "tunl0"}

// Check compares what is with what should be. namespace is the inode number of the network namespace that the fence is for.
func Check(p Plan, namespace uint64, s State) []Row {
	var rows []Row
	add := func(control, want, got string) {
		rows = append(rows, Row{Control: "fence." + control, Want: want, Got: got, Held: want == got})
	}
	add("sockets", "as planned", p.sockets(s))
	if p.Variant == VariantProxy {
		return rows
	}
	add("namespace", fmt.Sprintf("%d sockets in net:[%d]", len(p.Sockets), namespace), namespaces(s.Namespaces))
	if p.Variant == VariantAnyIP {
		add("links", "lo up", strings.Join(links(s.Links), ", "))
		add("addresses", strings.Join(p.addresses(), ", "), strings.Join(slices.Sorted(slices.Values(s.Addresses)), ", "))
		add("routes", strings.Join(p.routes(), ", "), strings.Join(slices.Sorted(slices.Values(foreignRoutes(s.Routes))), ", "))
		add("policy routing", strings.Join(defaultRules(s.Rules), ", "), strings.Join(s.Rules, ", "))
		// A discipline on the loopback holds up or changes packets; where there is one link, there is nowhere to send them.
		add("schedulers", "none", none(slices.DeleteFunc(slices.Clone(s.Qdiscs), func(line string) bool { return strings.HasSuffix(line, " noqueue") })))
	}
	want, got := p.ruleset(), s.Ruleset
	if p.Variant == VariantPod {
		var others []string
		got, others = ours(got)
		add("foreign rules", "none", none(append(others, s.Legacy...)))
		add("xdp", "none", none(only(s.Links, func(line string) bool { return strings.Contains(line, " xdp") })))
		add("schedulers", "none", none(only(s.Qdiscs, func(line string) bool {
			return strings.HasSuffix(line, " clsact") || strings.HasSuffix(line, " ingress")
		})))
		add("policy routing", strings.Join(defaultRules(s.Rules), ", "), strings.Join(s.Rules, ", "))
	}
	add("ruleset", digestText(rulesetLines, want), difference(rulesetLines, want, got))
	if p.hasReach() {
		add("reach", digestText(reachLines, s.Admitted), difference(reachLines, s.Admitted, s.Reach))
	}
	return rows
}

// Unseen is what could get round a fence of this plan, and what nobody can look for without more privilege than it takes to hold the fence. For the verdict.
func (p Plan) Unseen() []string {
	if p.Variant != VariantPod {
		return nil
	}
	return []string{
		"fence.cgroup-bpf: programs of BPF at connect and sendmsg of a cgroup can send what the runner sends elsewhere; listing them takes CAP_BPF or CAP_SYS_ADMIN",
		"fence.bpf-links: programs of BPF that are attached by a link (netfilter, tcx, netkit) aren't listed by netlink",
		"fence.xfrm: policies of IPsec aren't looked at",
	}
}

// ours are the lines of our table, and those of any other.
func ours(lines []string) (own, others []string) {
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "inet" && fields[2] == tableName {
			own = append(own, line)
		} else {
			others = append(others, line)
		}
	}
	return own, others
}

func only(lines []string, keep func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !keep(line) })
}

// namespaces says how many sockets live where.
func namespaces(inodes []uint64) string {
	var parts []string
	for _, inode := range slices.Compact(slices.Sorted(slices.Values(inodes))) {
		count := 0
		for _, other := range inodes {
			if other == inode {
				count++
			}
		}
		parts = append(parts, fmt.Sprintf("%d sockets in net:[%d]", count, inode))
	}
	return strings.Join(parts, ", ")
}

// sockets names those that aren't as planned.
func (p Plan) sockets(s State) string {
	var odd []string
	for i, socket := range p.Sockets {
		got := "missing"
		if i < len(s.Sockets) {
			got = s.Sockets[i]
		}
		if !slices.Contains(socket.texts(), got) {
			odd = append(odd, got)
		}
	}
	if len(odd) == 0 && len(s.Sockets) == len(p.Sockets) {
		return "as planned"
	}
	return strings.Join(odd, "; ")
}

// groups are the multicast groups that a netlink socket hears, a bit for each: without one of them a foreign change of that kind goes unnoticed until
// somebody looks. All of ours are among the first 32, which getsockname(2) tells of.
func (s Socket) groups() (bits uint32) {
	for _, option := range s.Options {
		if option.Level == unix.SOL_NETLINK && option.Name == unix.NETLINK_ADD_MEMBERSHIP {
			bits |= 1 << (option.Value - 1)
		}
	}
	return bits
}

func groupsText(bits uint32) string { return fmt.Sprintf(" groups=%#x", bits) }

// texts are the lines that a socket as planned may have: one for datagrams is bound only when the fence has been opened.
func (s Socket) texts() []string {
	line := fmt.Sprintf("%s domain=%d type=%d protocol=%d", s.Name, s.Domain, s.Type&^unix.SOCK_NONBLOCK, s.protocol())
	if s.Domain == unix.AF_NETLINK {
		return []string{line + groupsText(s.groups())}
	}
	for _, option := range s.Options {
		line += fmt.Sprintf(" %d.%d=%d", option.Level, option.Name, option.Value)
	}
	if s.Type == unix.SOCK_RAW {
		return []string{line}
	}
	texts := []string{line + " " + s.Address}
	if s.Type == unix.SOCK_DGRAM {
		unbound := netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
		if s.Domain == unix.AF_INET {
			unbound = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
		}
		texts = append(texts, line+" "+unbound.String())
	}
	return texts
}

// protocol is what 0 means to socket(2).
func (s Socket) protocol() int {
	switch {
	case s.Protocol != 0 || s.Domain == unix.AF_NETLINK:
		return s.Protocol
	case s.Type == unix.SOCK_STREAM:
		return unix.IPPROTO_TCP
	}
	return unix.IPPROTO_UDP
}

// links are all but those that the kernel makes by itself and nobody has brought up.
func links(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		name, down := strings.CutSuffix(line, " down")
		return down && slices.Contains(FallbackLinks, name)
	})
}

func (p Plan) withIPv6() bool { return p.socket(socketRelay6) >= 0 }

func (p Plan) addresses() []string {
	all := []string{"lo 127.0.0.1/8", fmt.Sprintf("lo %s/32", Own4)}
	if p.withIPv6() {
		all = append(all, "lo ::1/128", fmt.Sprintf("lo %s/128", Own6))
	}
	return slices.Sorted(slices.Values(all))
}

// routes are the plan's own, sorted.
func (p Plan) routes() []string {
	line := func(family string, source netip.Addr) string {
		return fmt.Sprintf("%s local default dev lo src %s table %d proto %d", family, source, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC)
	}
	none := func(text string) string {
		return fmt.Sprintf("%s table %d proto %d", text, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC)
	}
	all := []string{line("ip", Own4), none("ip throw 224.0.0.0/4")}
	if p.withIPv6() {
		all = append(all, line("ip6", Own6), none("ip6 throw ff00::/8 dev lo"))
	}
	return slices.Sorted(slices.Values(all))
}

// foreignRoutes are all but those that the kernel itself makes for the loopback, which differ between releases.
func foreignRoutes(lines []string) []string {
	kernel := fmt.Sprintf(" proto %d", unix.RTPROT_KERNEL)
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		fields := strings.Fields(strings.TrimSuffix(line, kernel)) // "ip local 127.0.0.1/32 dev lo src 127.0.0.1 table 255"
		if !strings.HasSuffix(line, kernel) || len(fields) < 7 || fields[2] == "default" || fields[3] != "dev" || fields[4] != "lo" {
			return false
		}
		return len(fields) == 7 || len(fields) == 9 && fields[5] == "src"
	})
}

// defaultRules are those of a new namespace; of IPv6 only where it has some.
func defaultRules(lines []string) []string {
	all := []string{"ip 0: table 255", "ip 32766: table 254", "ip 32767: table 253"}
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "ip6 ") }) {
		all = append(all, "ip6 0: table 255", "ip6 32766: table 254")
	}
	return all
}

func none(lines []string) string {
	if len(lines) == 0 {
		return "none"
	}
	return strings.Join(lines, ", ")
}

// What lines of a state are.
const (
	rulesetLines = "tables, chains, rules and sets"
	reachLines   = "elements"
)

func digestText(what string, lines []string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return fmt.Sprintf("%d %s, sha256:%s", len(lines), what, hex.EncodeToString(sum[:]))
}

// difference is the digest of what is there, and the first line that is other than it should be.
func difference(what string, want, got []string) string {
	text := digestText(what, got)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return text + "; missing: " + want[i]
		case i >= len(want) || want[i] != got[i]:
			return text + "; other: " + got[i]
		}
	}
	return text
}
