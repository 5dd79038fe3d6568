package names

import (
	"sync"
	"time"
)

// bucket is a token bucket: perSecond in the long run, burst at once.
type bucket struct {
	perSecond, burst float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func newBucket(perSecond, burst int, now time.Time) *bucket {
	return &bucket{perSecond: float64(perSecond), burst: float64(burst), tokens: float64(burst), at: now}
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens = min(b.burst, b.tokens+passed.Seconds()*b.perSecond)
		b.at = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
