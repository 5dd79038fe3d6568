// Package names answers what the programs of a sandbox ask by DNS. Queries are parsed and answered anew; nothing that a program wrote is ever handed
// on as bytes.
//
//	program ──query──▶ Server ── allowed? ──▶ Resolver ──A, AAAA──▶ upstream
//	        ◀─answer──   │  a synthetic address         (shared, cached)
//	                     ▼
//	        relay: NameOf(synthetic address) → the name that a connection is for
//
// There is one [Server] for each sandbox and one [Resolver] for all of them.
//
// # What is answered
//
//	one question, class IN, type A or AAAA, a name that the rules let resolve   the name's synthetic address, or NODATA
//	the same, and upstream says that the name doesn't exist                     NXDOMAIN
//	the same, and none of its addresses may be connected to                     NXDOMAIN, recorded with the address's reason
//	the same, and upstream doesn't answer                                       SERVFAIL
//	any other name                                                              NXDOMAIN
//	another type, class or operation; a limit                                   REFUSED
//	what isn't one question, or isn't DNS                                       FORMERR
//	an answer; less than a header                                               silence
//
// Each allowed name has an address of its own in [Config].Range, so that a connection says which name it is for whatever addresses that name shares
// with others. A name with IPv6 addresses only has an IPv4 synthetic address all the same: the relay dials what upstream says, of either family.
// By default AAAA is answered NODATA: one family in a sandbox to reason about. CNAMEs aren't shown and aren't judged: policy speaks of the name
// that the program asks for, and the addresses behind it are judged as addresses, here once and by the relay at each dial.
//
// A synthetic address is given to one name and never to another while the sandbox lives: programs may keep an address for ever. Nothing is evicted;
// [Limits].Names bounds the table instead, and a name behind that bound is refused.
//
// Two names are special. "localhost" and what is beneath it is the loopback address (RFC 6761 §6.3); upstream is never asked. A name that ends in a
// number is an address that somebody wrote in a name's place, and doesn't exist (WHATWG URL §3.5). A single label is a name like any other, and is
// never completed with a search list.
//
// # What leaves through a name
//
// A query below an allowed wildcard reaches the name servers of that domain, so that it can carry data. For names that no rule spells out,
// [Limits] bounds the length of a label, the bits of a name, and the number of different names in the life of a sandbox.
package names
