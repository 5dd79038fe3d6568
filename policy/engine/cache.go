package engine

import (
	"crypto/sha256"
	"sync"

	"github.com/sandboxd/sandboxd/policy"
)

const (
	// mostCached is how many decisions each half of a cache holds.
	mostCached = 512
	// mostCachedBytes is the largest input whose decision is kept: the decision repeats parts of it.
	mostCachedBytes = 8 << 10
)

// cache remembers decisions of one generation by the digest of the whole request, so that it can't outlive a policy nor mix two requests up. When
// young is full it becomes old, and what is asked for again moves back.
type cache struct {
	mu sync.Mutex
	// young and old are guarded by mu. The decisions in them are never handed out but copied.
	young, old map[[sha256.Size]byte]policy.Decision
}

func newCache() *cache {
	return &cache{young: map[[sha256.Size]byte]policy.Decision{}}
}

func (c *cache) get(key [sha256.Size]byte) (policy.Decision, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if decision, known := c.young[key]; known {
		return decision, true
	}
	decision, known := c.old[key]
	if known {
		c.put(key, decision)
	}
	return decision, known
}

func (c *cache) add(key [sha256.Size]byte, decision policy.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, decision)
}

// put needs mu.
func (c *cache) put(key [sha256.Size]byte, decision policy.Decision) {
	if len(c.young) >= mostCached {
		c.old, c.young = c.young, make(map[[sha256.Size]byte]policy.Decision, mostCached)
	}
	c.young[key] = decision
}
