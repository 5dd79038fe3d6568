package execd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// maxHeaderBytes bounds a request's header.
const maxHeaderBytes = 64 << 10

// Serve answers HTTP on a listener of [Listen] until ctx ends. Then it stops gracefully, in this order: no new connections and no socket, what
// runs is killed and recorded and answered as cancelled, the connections end, the sandboxes end, the stop record is written. The service is closed
// when it returns.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	if guard, ok := l.(*Listener); ok {
		guard.onRefused(s.refuseConnections())
	}
	server := &http.Server{
		Handler:           s.Handler(),
		ConnContext:       withCaller,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	s.chores.Go(s.settle)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var wrong []error
	select {
	case err := <-served:
		wrong = append(wrong, err)
	case <-ctx.Done():
		wrong = append(wrong, l.Close())
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			wrong = append(wrong, err)
		}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	s.beginStop()
	if err := server.Shutdown(bounded); err != nil && !errors.Is(err, net.ErrClosed) {
		wrong = append(wrong, err, server.Close())
	}
	return errors.Join(append(wrong, s.Close(bounded))...)
}

// refuseConnections records strangers: each is counted, one in a second gets a record, so that a stranger can't fill the log.
func (s *Service) refuseConnections() func(policy.Caller) {
	var mu sync.Mutex
	var last time.Time
	return func(stranger policy.Caller) {
		s.metrics.refused.Inc()
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
		defer cancel()
		record := audit.Record{Type: audit.TypeRefused, Caller: &stranger, Message: "this user may not connect"}
		if _, err := s.log.Note(ctx, record); err != nil {
			s.logger.Error("audit", "type", record.Type, "error", err)
		}
	}
}
