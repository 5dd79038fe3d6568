package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// Class is the kind of an address. All but [ClassPublic] are closed: an egress rule opens one of the others only by naming a range of it.
type Class string

// The classes.
const (
	ClassPublic        Class = "public"
	ClassUnspecified   Class = "unspecified"   // 0.0.0.0/8, ::, which Linux takes for the host itself
	ClassLoopback      Class = "loopback"      // 127.0.0.0/8, ::1
	ClassPrivate       Class = "private"       // RFC 1918
	ClassShared        Class = "shared"        // 100.64.0.0/10, RFC 6598: carrier-grade NAT, and what clouds put there
	ClassLinkLocal     Class = "link-local"    // 169.254.0.0/16, fe80::/10
	ClassUniqueLocal   Class = "unique-local"  // fc00::/7, and site-local before it
	ClassMulticast     Class = "multicast"     // 224.0.0.0/4, ff00::/8
	ClassBroadcast     Class = "broadcast"     // 255.255.255.255
	ClassReserved      Class = "reserved"      // protocol assignments, 240.0.0.0/4, and all of IPv6 that isn't given out
	ClassDocumentation Class = "documentation" // 192.0.2.0/24 and its like
	ClassBenchmarking  Class = "benchmarking"  // 198.18.0.0/15, 2001:2::/48
	ClassMetadata      Class = "metadata"      // where clouds hand out credentials and configuration
	ClassTranslated    Class = "translated"    // stands for an IPv4 address: mapped, compatible, NAT64, 6to4, Teredo
)

// Never says that no rule opens the class.
func (c Class) Never() bool {
	switch c {
	case ClassMetadata, ClassLoopback, ClassUnspecified, ClassMulticast, ClassBroadcast:
		return true
	}
	return false
}

// Range is a range of addresses of one class.
type Range struct {
	Prefix netip.Prefix
	Class  Class
}

// ranges are all that isn't public: the IANA special-purpose registries (RFC 6890 and its updates), the metadata addresses of the clouds, and
// IPv6 outside of 2000::/3. The longest prefix counts.
var ranges = []struct {
	prefix string
	class  Class
}{
	{"0.0.0.0/8", ClassUnspecified},
	{"10.0.0.0/8", ClassPrivate},
	{"100.64.0.0/10", ClassShared},
	{"127.0.0.0/8", ClassLoopback},
	{"169.254.0.0/16", ClassLinkLocal},
	{"172.16.0.0/12", ClassPrivate},
	{"192.0.0.0/24", ClassReserved},
	{"192.0.2.0/24", ClassDocumentation},
	{"192.88.99.0/24", ClassReserved}, // relays of 6to4, gone since RFC 7526
	{"192.168.0.0/16", ClassPrivate},
	{"198.18.0.0/15", ClassBenchmarking},
	{"198.51.100.0/24", ClassDocumentation},
	{"203.0.113.0/24", ClassDocumentation},
	{"224.0.0.0/4", ClassMulticast},
	{"240.0.0.0/4", ClassReserved},
	{"255.255.255.255/32", ClassBroadcast},

	{"::/3", ClassReserved},
	{"::/96", ClassTranslated}, // compatible, RFC 4291 §2.5.5.1
	{"::/128", ClassUnspecified},
	{"::1/128", ClassLoopback},
	{"::ffff:0:0/96", ClassTranslated},   // mapped
	{"::ffff:0:0:0/96", ClassTranslated}, // SIIT, RFC 2765
	{"64:ff9b::/96", ClassTranslated},    // NAT64, RFC 6052
	{"64:ff9b:1::/48", ClassTranslated},  // NAT64 as an operator likes it, RFC 8215
	{"100::/64", ClassReserved},          // discarded
	{"2001::/23", ClassReserved},         // protocol assignments
	{"2001::/32", ClassTranslated},       // Teredo
	{"2001:2::/48", ClassBenchmarking},
	{"2001:db8::/32", ClassDocumentation},
	{"2002::/16", ClassTranslated}, // 6to4
	{"3fff::/20", ClassDocumentation},
	{"4000::/2", ClassReserved},
	{"8000::/1", ClassReserved},
	{"fc00::/7", ClassUniqueLocal},
	{"fe80::/10", ClassLinkLocal},
	{"fec0::/10", ClassUniqueLocal},
	{"ff00::/8", ClassMulticast},

	{"169.254.169.254/32", ClassMetadata},     // AWS, Azure, GCP, Oracle, OpenStack, DigitalOcean, Hetzner, IBM and others
	{"169.254.169.253/32", ClassMetadata},     // AWS: resolver
	{"169.254.169.123/32", ClassMetadata},     // AWS: time
	{"169.254.170.2/32", ClassMetadata},       // AWS: credentials of an ECS task
	{"169.254.170.23/32", ClassMetadata},      // AWS: credentials of an EKS pod
	{"169.254.169.250/32", ClassMetadata},     // Rancher
	{"169.254.0.23/32", ClassMetadata},        // Tencent
	{"169.254.42.42/32", ClassMetadata},       // Scaleway
	{"100.100.100.200/32", ClassMetadata},     // Alibaba
	{"168.63.129.16/32", ClassMetadata},       // Azure: the platform's channel, a public address
	{"192.0.0.192/32", ClassMetadata},         // Oracle, the classic one
	{"192.80.8.124/32", ClassMetadata},        // Equinix Metal, a public address
	{"fd00:ec2::254/128", ClassMetadata},      // AWS
	{"fd00:ec2::253/128", ClassMetadata},      // AWS: resolver
	{"fd00:ec2::123/128", ClassMetadata},      // AWS: time
	{"fd00:ec2::23/128", ClassMetadata},       // AWS: credentials of an EKS pod
	{"fd20:ce::254/128", ClassMetadata},       // GCP
	{"fd00:c1::a9fe:a9fe/128", ClassMetadata}, // Oracle
	{"fd00:42::42/128", ClassMetadata},        // Scaleway
	{"fe80::a9fe:a9fe/128", ClassMetadata},    // OpenStack
}

// Ranges are all ranges that aren't public.
func Ranges() []Range {
	list := make([]Range, len(ranges))
	for i, r := range ranges {
		list[i] = Range{netip.MustParsePrefix(r.prefix), r.class}
	}
	return list
}

// rangesByByte are the ranges by the first byte of an address, IPv4 and IPv6, the longest prefix first.
var rangesByByte = func() (by [2][256][]Range) {
	for _, one := range Ranges() {
		family, first := family(one.Prefix.Addr()), int(one.Prefix.Addr().AsSlice()[0])
		for i := first; i < first+1<<max(0, 8-one.Prefix.Bits()); i++ {
			by[family][i] = append(by[family][i], one)
		}
	}
	for family := range by {
		for _, list := range by[family] {
			slices.SortFunc(list, func(a, b Range) int { return b.Prefix.Bits() - a.Prefix.Bits() })
		}
	}
	return by
}()

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// RangeOf is the range of a, the longest that it lies in; a public address is in the zero prefix. An address with a zone is judged without it;
// no address is unspecified.
func RangeOf(a netip.Addr) Range {
	var first byte
	switch {
	case a.Is4():
		first = a.As4()[0]
	case a.Is6():
		first = a.As16()[0]
		if a.Zone() != "" {
			a = a.WithZone("")
		}
	default:
		return Range{Class: ClassUnspecified}
	}
	for _, r := range rangesByByte[family(a)][first] {
		if r.Prefix.Contains(a) {
			return r
		}
	}
	return Range{Class: ClassPublic}
}

// ClassOf is the class of a.
func ClassOf(a netip.Addr) Class { return RangeOf(a).Class }

// Embedded is the IPv4 address that a translated one stands for. False is one of 64:ff9b:1::/48 too: which bits an operator puts the address
// in can't be known, so that nothing there can be judged.
func Embedded(a netip.Addr) (netip.Addr, bool) {
	r := RangeOf(a)
	if r.Class != ClassTranslated {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch r.Prefix.Bits() {
	case 96: // in the last four bytes
		return netip.AddrFrom4([4]byte(b[12:])), true
	case 16: // 6to4, RFC 3056 §2
		return netip.AddrFrom4([4]byte(b[2:])), true
	case 32: // Teredo, RFC 4380 §4: the client's, each bit turned
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

// rangeOfPrefix is the longest range that the whole prefix lies in.
func rangeOfPrefix(p netip.Prefix) Range {
	for _, r := range rangesByByte[family(p.Addr())][p.Addr().AsSlice()[0]] {
		if r.Prefix.Bits() <= p.Bits() && r.Prefix.Contains(p.Addr()) {
			return r
		}
	}
	return Range{Class: ClassPublic}
}

// metadataNames are names under which clouds hand out credentials; what is beneath one is one too.
var metadataNames = []string{
	"metadata.google.internal", "metadata.goog", "metadata", // GCP; the last by its search list
	"instance-data.ec2.internal", "instance-data", // AWS
	"metadata.azure.internal",                             // Azure
	"metadata.tencentyun.com",                             // Tencent
	"api.metadata.cloud.ibm.com",                          // IBM
	"metadata.packet.net", "metadata.platformequinix.com", // Equinix Metal
	"metadata.exoscale.com", // Exoscale
	"rancher-metadata",      // Rancher
}

// MetadataNames is the list of them.
func MetadataNames() []string { return slices.Clone(metadataNames) }

// MetadataName says that no rule opens a name, as none opens a [ClassMetadata] address: the address behind it is closed as well, but a name that
// isn't answered says why.
func MetadataName(name string) bool {
	return slices.ContainsFunc(metadataNames, func(known string) bool { return name == known || strings.HasSuffix(name, "."+known) })
}
