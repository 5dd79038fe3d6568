package relay

import (
	"maps"
	"sync"
	"time"
)

// Stats counts since the server was made.
type Stats struct {
	Accepted, Live, Ended, Cut, Failed int64
	// Full is of Denied those for which there was no room.
	Denied, Full      int64
	BytesOut, BytesIn int64
	// DeniedBy counts denials by the rule's index, or one of the negative values of network.Match, or RuleRelay.
	DeniedBy map[int]int64
	// Dials and DialSeconds are of connections that were made, resolving included. DialBuckets counts those of at most DialBounds each.
	Dials       int64
	DialSeconds float64
	DialBuckets [len(dialBounds)]int64
}

var dialBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
}

// DialBounds are the upper bounds of Stats.DialBuckets.
func DialBounds() []time.Duration { return dialBounds[:] }

// counts is Stats being made.
type counts struct {
	mu sync.Mutex
	Stats
}

func (c *counts) with(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.Stats)
}

func (c *counts) denied(rule int) {
	c.with(func(s *Stats) {
		if s.DeniedBy == nil {
			s.DeniedBy = map[int]int64{}
		}
		s.Denied++
		s.DeniedBy[rule]++
	})
}

func (c *counts) dialed(took time.Duration) {
	c.with(func(s *Stats) {
		s.Dials++
		s.DialSeconds += took.Seconds()
		for i, bound := range dialBounds {
			if took <= bound {
				s.DialBuckets[i]++
			}
		}
	})
}

// Stats counts connections that are still carried as well.
func (s *Server) Stats() Stats {
	var stats Stats
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.with(func(counted *Stats) {
		stats = *counted
		stats.DeniedBy = maps.Clone(counted.DeniedBy)
	})
	for c := range s.live {
		stats.Live++
		stats.BytesOut += c.out.Load()
		stats.BytesIn += c.in.Load()
	}
	for _, f := range s.flows {
		stats.Live++
		stats.BytesOut += f.out.Load()
		stats.BytesIn += f.in.Load()
	}
	return stats
}
