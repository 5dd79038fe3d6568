package execd

import (
	"context"
	"net/http"
	"time"
)

// drainLook is how often it is looked whether the last request has ended.
const drainLook = 10 * time.Millisecond

// untilDrained ends when ctx has ended and, after that, every request that was on its way, or [Config.DrainTimeout] is over. From the first moment on no request
// begins: it is answered 503, and readiness is false. What a program left behind on purpose isn't waited for.
func (s *Service) untilDrained(ctx context.Context) context.Context {
	if s.config.DrainTimeout == 0 {
		return ctx
	}
	drained, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer end()
		s.drain()
	})
	return drained
}

func (s *Service) drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	if running := s.active.Load(); running > 0 {
		s.logger.Info("draining", "running", running, "seconds", s.config.DrainTimeout.Seconds())
	}
	ticker := time.NewTicker(drainLook)
	defer ticker.Stop()
	for until := time.Now().Add(s.config.DrainTimeout); s.active.Load() > 0 && time.Now().Before(until); {
		<-ticker.C
	}
}

// postStop has the daemon end as SIGTERM does. It is for who may send that, and can't, since it doesn't know which process it is: a hook in the sidecar's
// container.
func (s *Service) postStop(x *exchange) error {
	if !seesAll(x.caller) {
		return errorOf("DENIED", "the daemon's own user and root may stop it")
	}
	x.answer(http.StatusAccepted, Health{"stopping"})
	s.askStop()
	return nil
}
