package relay

import (
	"net/netip"
	"sync"
	"time"
)

// The kinds of an Event.
const (
	// Denied: rules or the relay's own checks said no, before or after something was dialled.
	Denied = "denied"
	// Failed: it was allowed, and the name had no answer or nobody answered at its addresses.
	Failed = "failed"
	// Cut: it was carried, and ended by us: the rules don't allow it any more, or a limit was reached.
	Cut = "cut"
	// Ended: it was carried, and ended by client or server. Told when [Config.Ended] asks for it.
	Ended = "ended"
)

// Event is the end of a connection. Texts that a client chose (Name, Claimed) have the form of a name or are empty.
type Event struct {
	Kind string
	// Datagrams: it was a flow of datagrams, not a connection.
	Datagrams bool
	// Name that the connection was for; empty: a literal address.
	Name string
	// Destination is what the client dialled, or with Proxy the port it asked for beside Name or the address.
	Destination netip.AddrPort
	Proxy       bool
	// Dialed is the address that was checked and answered.
	Dialed netip.AddrPort
	// Rule is the index of the rule that decided, or one of the negative values of network.Match, or RuleRelay.
	// In says of which rules, where several are in force.
	Rule, In int
	Reason   string
	// Err is what the network said, of Failed.
	Err error
	// BytesOut left the sandbox, BytesIn came.
	BytesOut, BytesIn int64
	Duration          time.Duration
	// Suppressed is how many like it weren't told since the last, of Denied and Failed: their number is the sandbox's to choose.
	Suppressed int
}

// bucket bounds events that a sandbox can cause at will: burst at once, then one each time interval passes.
type bucket struct {
	mu         sync.Mutex
	left       int
	filled     time.Time
	suppressed int
}

const (
	bucketBurst    = 50
	bucketInterval = 50 * time.Millisecond
)

// take says whether one may be told, and how many weren't before it.
func (b *bucket) take(now time.Time) (bool, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filled.IsZero() {
		b.left, b.filled = bucketBurst, now
	}
	if n := int(now.Sub(b.filled) / bucketInterval); n > 0 {
		b.left = min(b.left+n, bucketBurst)
		b.filled = b.filled.Add(time.Duration(n) * bucketInterval)
	}
	if b.left == 0 {
		b.suppressed++
		return false, 0
	}
	b.left--
	suppressed := b.suppressed
	b.suppressed = 0
	return true, suppressed
}

// missed are events that nobody could tell of.
func (b *bucket) missed(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.suppressed += n
}
