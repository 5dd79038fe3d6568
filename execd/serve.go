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

// Serve answers HTTP on listeners of [Listen] and [ListenToken] until ctx ends, or a stop is asked for over the API. Then it stops gracefully, in this order: for [Config.DrainTimeout] at
// most what runs goes on and nothing new begins; no new connections and no socket, what runs is killed and recorded and answered as cancelled, the connections end, the sandboxes end, the stop record is written. The
// service is closed when it returns.
func (s *Service) Serve(ctx context.Context, listeners ...net.Listener) error {
	refuse := s.refuseConnections()
	for _, l := range listeners {
		if guard, ok := l.(interface {
			onRefused(func(policy.Caller, string))
		}); ok {
			guard.onRefused(refuse)
		}
	}
	crowd := &connections{most: s.config.connections(), busy: s.metrics.busy.Inc}
	server := s.newServer(crowd)
	// Apart, so that no other listener understands more than it is there for.
	second := s.newServer(crowd)
	second.Protocols = new(http.Protocols)
	second.Protocols.SetHTTP1(true)
	second.Protocols.SetUnencryptedHTTP2(true)
	second.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: mostStreams, SendPingTimeout: s.config.IdleTimeout, PingTimeout: s.config.HeaderTimeout}
	s.chores.Go(s.settle)
	if !s.config.Attach.on() { // else when there is a launcher
		s.chores.Go(s.proveStart)
	}
	ctx, cancelStop := context.WithCancel(ctx)
	defer cancelStop()
	defer context.AfterFunc(s.asked, cancelStop)()
	wrong := serveAll(s.untilDrained(ctx), server, second, crowd.bound(listeners))
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	s.beginStop()
	for _, one := range []*http.Server{second, server} {
		if err := one.Shutdown(bounded); err != nil && !errors.Is(err, net.ErrClosed) {
			wrong = append(wrong, err, one.Close())
		}
	}
	return errors.Join(append(wrong, s.Close(bounded))...)
}

// mostStreams is how many requests may be under way on one connection of HTTP/2.
const mostStreams = 64

// newServer is a server of HTTP with the bounds of all.
func (s *Service) newServer(crowd *connections) *http.Server {
	return &http.Server{
		ConnState:         crowd.state,
		Handler:           byListener(s.Handler()),
		BaseContext:       withMount,
		ConnContext:       withCaller,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
}

// serveAll serves until ctx ends or one listener fails, and has closed all of them when it returns. second has those on which HTTP/2 is spoken too.
func serveAll(ctx context.Context, server, second *http.Server, listeners []net.Listener) (wrong []error) {
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		one := server
		if speaksHTTP2(l) {
			one = second
		}
		go func() { served <- one.Serve(l) }()
	}
	running := len(listeners)
	select {
	case err := <-served:
		wrong = append(wrong, err)
		running--
	case <-ctx.Done():
	}
	for _, l := range listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			wrong = append(wrong, err)
		}
	}
	for range running {
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// refuseConnections records strangers: each is counted, one in a second gets a record, so that a stranger can't fill the log.
func (s *Service) refuseConnections() func(policy.Caller, string) {
	var mu sync.Mutex
	var last time.Time
	return func(stranger policy.Caller, why string) {
		s.metrics.refused.Inc()
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
		defer cancel()
		record := audit.Record{Type: audit.TypeRefused, Caller: &stranger, Message: why}
		if _, err := s.log.Note(ctx, record); err != nil {
			s.logger.Error("audit", "type", record.Type, "error", err)
		}
	}
}
