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

// idleMinute is how often a daemon looks whether it has become idle: no request has come in one whole turn.
const idleMinute = time.Minute

// settle keeps an idle daemon small. Loading policy and testing it takes ten times of the heap that it leaves; and what a busy time needed, the time after
// doesn't.
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
	s.giveBack()
	ticker := time.NewTicker(idleMinute)
	defer ticker.Stop()
	for quiet := (quiet{}); ; {
		select {
		case <-ticker.C:
		case <-s.life.Done():
			return
		}
		if quiet.turn(s.walked.Load()) {
			s.giveBack()
		}
	}
}

// quiet knows how many requests had come at the last turn, and when memory was given back.
type quiet struct{ before, settled int64 }

// turn says whether a busy time is over: nothing has come since the last turn, and something since memory was given back.
func (q *quiet) turn(now int64) bool {
	over := now == q.before && now != q.settled
	if over {
		q.settled = now
	}
	q.before = now
	return over
}

// giveBack gives the kernel what isn't needed: garbage, and the pages of our own program.
func (s *Service) giveBack() {
	debug.FreeOSMemory()
	if err := forgetProgram(); err != nil {
		s.logger.Warn("memory: pages of the program that aren't needed stay mapped", "error", err)
	}
}
