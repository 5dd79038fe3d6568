package execd

import (
	"os"
	"runtime/debug"
	"time"
)

// settleAfter is how long after its start a daemon gives back what only the start has used: by then the pool is full.
const settleAfter = time.Second

// gcPercent lets garbage grow to twice of what lives, some 3 MiB: the default would collect every fifty execs. GOGC in the environment wins.
const gcPercent = 200

// settle keeps an idle daemon small. Loading policy and testing it takes ten times of the heap that it leaves.
func (s *Service) settle() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	select {
	case <-time.After(settleAfter):
	case <-s.life.Done():
		return
	}
	debug.FreeOSMemory()
}
