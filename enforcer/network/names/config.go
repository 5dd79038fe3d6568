package names

import (
	"errors"
	"net/netip"
	"time"
)

// The ranges that synthetic addresses come from unless configured otherwise: benchmarking's (RFC 2544), which no network routes, and a
// unique-local one.
var (
	DefaultRange  = netip.MustParsePrefix("198.18.0.0/16")
	DefaultRange6 = netip.MustParsePrefix("fd5b::/64")
)

// Match is what rules say. Rule is the index of the rule, or negative, In says of which rules, where several are in force; Reason is a static text.
type Match struct {
	Allow    bool
	Rule, In int
	Reason   string
	// Spelled says that a rule spells out the whole name, so that asking for it tells its name servers nothing: the limits on what a name may
	// carry don't concern it.
	Spelled bool
}

// Config is what a Server is made of. Everything without a default is needed.
type Config struct {
	// Resolvable says whether a name, canonical, may be resolved: whether any port of it is allowed. It is asked anew for each query.
	Resolvable func(name string) Match
	// Resolved says whether any port of an address may be connected to for the sake of name. A name is answered if one of its addresses is.
	Resolved func(name string, address netip.Addr) Match
	Resolver *Resolver
	// Range and Range6 are where synthetic addresses come from: IPv4 of 8 to 24 bits, IPv6 of at most 96.
	Range, Range6 netip.Prefix
	// AAAA has such queries answered from Range6. Without it they are NODATA.
	AAAA   bool
	Limits Limits
	// Denied is told of refused queries, if there is one, at most Limits.Denials a second. It must not block.
	Denied func(Denial)
	// Observed is told of each query, if there is one.
	Observed func(Query)
	// Now is time.Now.
	Now func() time.Time
}

// DefaultConfig has what has a default.
func DefaultConfig() Config {
	return Config{Range: DefaultRange, Range6: DefaultRange6, Limits: DefaultLimits(), Now: time.Now}
}

func (c Config) check() error {
	switch {
	case c.Resolvable == nil, c.Resolved == nil, c.Resolver == nil, c.Now == nil:
		return errors.New("names: config: rules, resolver and clock are needed")
	}
	return c.Limits.check()
}

// Denial is a query that was refused.
type Denial struct {
	// Name in lower case, or, if it is no host name, as it came with odd bytes escaped; Type as A or TXT or TYPE65280. Both are empty if the query
	// wasn't looked at.
	Name, Type string
	// Rule as in [Match]; RuleNone where no rule was asked.
	Rule, In int
	Reason   string
	// Suppressed is how many denials before this one weren't told.
	Suppressed int
}

// RuleNone is the rule of denials that are not by a rule.
const RuleNone = -3

// Query is how one query went, for metrics.
type Query struct {
	Rcode string
	// Upstream says that the answer wasn't in the cache.
	Upstream bool
	Took     time.Duration
}
