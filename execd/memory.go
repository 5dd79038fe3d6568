package execd

import (
	"math"
	"runtime/debug"
	"time"
)

// settleAfter is how long after its start a daemon gives back what only the start has used: by then the pool is full.
const settleAfter = time.Second

// gcPercent lets garbage grow to twice of what lives, some 3 MiB: the default would collect every fifty execs. Another value than
// the default (GOGC in the environment) is left.
const gcPercent, runtimeGCPercent = 200, 100

// ownMemory is what a daemon takes besides what is reserved for requests. Near to all of that together the collector runs more often, so that garbage isn't
// added to it (GOMEMLIMIT in the environment is left).
const ownMemory = 64 << 20

// settle keeps an idle daemon small. Loading policy and testing it takes ten times of the heap that it leaves.
func (s *Service) settle() {
	if had := debug.SetMemoryLimit(-1); had == math.MaxInt64 { // else somebody chose it
		debug.SetMemoryLimit(ownMemory + s.config.RequestMemory + s.config.OutputMemory)
	}
	if had := debug.SetGCPercent(gcPercent); had != runtimeGCPercent {
		debug.SetGCPercent(had) // somebody chose it
	}
	select {
	case <-time.After(settleAfter):
	case <-s.life.Done():
		return
	}
	debug.FreeOSMemory()
}
