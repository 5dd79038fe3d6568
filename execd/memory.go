package execd

import (
	"runtime/debug"
	"time"
)

// settleAfter is how long after its start a daemon gives back what only the start has used: by then the pool is full.
const settleAfter = time.Second

// gcPercent lets garbage grow to twice of what lives, some 3 MiB: the default would collect every fifty execs. Another value than
// the default (GOGC in the environment) is left.
const gcPercent, runtimeGCPercent = 200, 100

// settle keeps an idle daemon small. Loading policy and testing it takes ten times of the heap that it leaves.
func (s *Service) settle() {
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
