// Package network judges where a sandbox may connect to: a [policy.NetworkSpec], compiled so that one look costs tens of nanoseconds with ten
// thousand rules. Whoever answers names and whoever dials asks here, and nobody else decides.
//
// A destination is a name or an address, never both. A name is judged by the rules of names ([Rules.Name]), and then each address that it
// resolves to once more ([Rules.Resolved]); a literal address is judged by the rules of addresses ([Rules.Address]). The first rule that matches
// wins, then the default action.
//
// Some addresses are closed whatever the default is ([policy.Class]): private ones, and others that aren't public. An allow rule matches them only
// if it names their range, which is to lie within it: 10.1.0.0/16 opens itself, 0.0.0.0/0 opens nothing private. Metadata services, loopback,
// multicast, broadcast and no address are never opened. An address that stands for an IPv4 one (NAT64, 6to4 and others) must pass as itself
// and as what it stands for; a mapped one is the IPv4 address.
package network
