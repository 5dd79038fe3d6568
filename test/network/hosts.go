package network

import (
	"net/netip"
	"slices"
)

// Addresses of the hosts.
var (
	NameServer = netip.MustParseAddr("45.9.1.53")
	Shared     = netip.MustParseAddr("45.9.1.1") // a., b. and c.example.net
	HTTP2      = netip.MustParseAddr("45.9.1.2")
	Lines      = netip.MustParseAddr("45.9.1.3")
	Redirect   = netip.MustParseAddr("45.9.1.4")
	Big        = netip.MustParseAddr("45.9.1.5")
	Git        = netip.MustParseAddr("45.9.1.6")
	Database   = netip.MustParseAddr("45.9.1.7")
	Rebinding  = netip.MustParseAddr("45.9.1.8")
	Elsewhere  = netip.MustParseAddr("45.9.1.9") // other.example.org, where a CNAME leads
	Public     = netip.MustParseAddr("45.9.1.10")
	OnlyIPv6   = netip.MustParseAddr("2a09:1::6")
	Both6      = netip.MustParseAddr("2a09:1::10")
	Private    = netip.MustParseAddr("10.9.0.1")
	Metadata   = netip.MustParseAddr("169.254.169.254")
)

// Ports of the hosts.
const (
	PortHTTP     = 80
	PortHTTPS    = 443
	PortLines    = 7000
	PortDatabase = 5432
)

// host is an address with what listens there, and the names in its certificate.
type host struct {
	address netip.Addr
	names   []string
	serve   []service
}

type service struct {
	port uint16
	kind kind
}

type kind int

const (
	web      kind = iota // HTTP/1.1, and HTTP/2 for those that know
	tlsWeb               // HTTP/1.1 and HTTP/2 behind TLS
	tlsHTTP2             // HTTP/2 alone behind TLS
	lines                // says hello first, then each line back
	database             // a database's protocol
)

var (
	webs = []service{{PortHTTP, web}, {PortHTTPS, tlsWeb}}

	hosts = []host{
		{Shared, []string{"a.example.net", "b.example.net", "c.example.net"}, webs},
		{HTTP2, []string{"h2.example.net"}, []service{{PortHTTPS, tlsHTTP2}}},
		{Lines, []string{"lines.example.net"}, []service{{PortLines, lines}, {PortHTTPS, lines}}},
		{Redirect, []string{"redirect.example.net"}, webs},
		{Big, []string{"big.example.net"}, webs},
		{Git, []string{"git.example.net"}, webs},
		{Database, []string{"db.example.net"}, []service{{PortDatabase, database}}},
		{Rebinding, []string{"rebind.example.net"}, webs},
		{Elsewhere, []string{"other.example.org", "alias.example.net"}, webs},
		{Public, []string{"www.example.com", "both.example.net"}, append(webs, service{853, lines}, service{8443, tlsWeb})},
		{OnlyIPv6, []string{"six.example.net"}, webs},
		{Both6, []string{"both.example.net"}, webs},
		{Private, []string{"private.example.net"}, webs},
		{Metadata, []string{"metadata.google.internal"}, webs},
	}
)

// records are the zone: text of the right-hand side, owner apart.
var records = map[string][]string{
	"a.example.net":            {"A 45.9.1.1"},
	"b.example.net":            {"A 45.9.1.1"},
	"c.example.net":            {"A 45.9.1.1"},
	"h2.example.net":           {"A 45.9.1.2"},
	"lines.example.net":        {"A 45.9.1.3"},
	"redirect.example.net":     {"A 45.9.1.4"},
	"big.example.net":          {"A 45.9.1.5"},
	"git.example.net":          {"A 45.9.1.6"},
	"db.example.net":           {"A 45.9.1.7"},
	"alias.example.net":        {"CNAME other.example.org."},
	"other.example.org":        {"A 45.9.1.9"},
	"www.example.com":          {"A 45.9.1.10"},
	"both.example.net":         {"A 45.9.1.10", "AAAA 2a09:1::10"},
	"six.example.net":          {"AAAA 2a09:1::6"},
	"empty.example.net":        {},
	"private.example.net":      {"A 10.9.0.1"},
	"loopback.example.net":     {"A 127.0.0.1", "AAAA ::1"},
	"metadata.example.net":     {"A 169.254.169.254"},
	"metadata.google.internal": {"A 169.254.169.254"},
	"mapped.example.net":       {"AAAA ::ffff:10.9.0.1"},
	"nat64.example.net":        {"AAAA 64:ff9b::a09:1"},
	"6to4.example.net":         {"AAAA 2002:a09:1::1"},
	"ula.example.net":          {"AAAA fd00::1"},
	"link.example.net":         {"A 169.254.1.1"},
	"x.y.z.example.net":        {"A 45.9.1.1"},
	"mixed.example.net":        {"A 10.9.0.1", "A 45.9.1.10"},
}

// RebindingName resolves to Rebinding the first time that anybody asks, and to Private ever after. Neither may be kept.
const RebindingName = "rebind.example.net"

func addresses() []netip.Addr {
	all := []netip.Addr{NameServer}
	for _, host := range hosts {
		if !slices.Contains(all, host.address) {
			all = append(all, host.address)
		}
	}
	return all
}
