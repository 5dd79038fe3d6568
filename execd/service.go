package execd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/runner"
)

// Options are what a caller wants besides the request.
type Options struct {
	// ResultMarker takes the value of the last result marker line from stdout.
	ResultMarker bool
	// Rows asks for every row of the verdict.
	Rows bool
	// Sink hears of the decision and of output as it comes; nil: nobody does.
	Sink Sink
}

// Sink hears what happens before the reply. Decision comes first; Output is called by one goroutine a stream and must not block for long: the
// child's output waits meanwhile.
type Sink interface {
	Decision(policy.Decision)
	// Output is a piece of "stdout" or "stderr", never beyond the output limit. The bytes are the sink's to keep.
	Output(stream string, chunk []byte)
}

// Service is one sandboxd: policy, sandboxes, the log, and the walk. [New] starts it, [Service.Close] ends it.
type Service struct {
	config    Config
	logger    *slog.Logger
	began     time.Time
	host      enforcer.Host
	profiles  enforcer.Profiles
	engine    *engine.Engine
	log       *audit.Log
	binary    *os.File
	group     *cgroup.Group
	ids       *ids
	sandboxes *sandboxes
	queue     *queue
	metrics   *metrics
	// pattern is a sandbox plan as fresh sandboxes have it: what a dry run is built against.
	pattern enforcer.SandboxPlan

	// life ends when the service stops: every walk's context hangs on it.
	life context.Context
	die  context.CancelFunc
	// chores are the service's own goroutines.
	chores sync.WaitGroup

	mu      sync.Mutex // guards closing, and that no walk begins after it
	closing bool
	walks   sync.WaitGroup
	closed  sync.Once
}

// New probes the host, loads the policy, opens the log, settles what a daemon that died has left, and starts to make sandboxes. Nothing is
// started that a faulty config or a host that can't hold a sandbox would leave half done.
func New(ctx context.Context, c Config) (_ *Service, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Service{config: c, logger: c.Logger, began: time.Now(), profiles: enforcer.Profiles{Dir: c.ProfileDir}}
	s.life, s.die = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.die()
			s.giveUp()
		}
	}()
	if s.binary, err = openRunner(c.RunnerPath); err != nil {
		return nil, err
	}
	if s.host, err = enforcer.ProbeHost(enforcer.HostConfig{Show: c.Show}); err != nil {
		return nil, err
	}
	if err := s.openGroup(); err != nil {
		return nil, err
	}
	if s.ids, err = openIDs(c); err != nil {
		return nil, err
	}
	s.queue = newQueue(c.MaxRunning, c.MaxWaiting, c.QueueTimeout)
	s.sandboxes = newSandboxes(s.life, c, s.host, s.binary, s.ids, s.group)
	if s.pattern, err = enforcer.BuildSandbox(s.host, s.sandboxes.spec(0)); err != nil {
		return nil, err
	}
	if s.log, err = audit.Open(c.auditDir(), audit.Options{FileBytes: c.AuditFileBytes}); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	if err := s.openEngine(ctx); err != nil {
		return nil, err
	}
	if err := s.recordStart(ctx); err != nil {
		return nil, err
	}
	s.sandboxes.startFilling()
	s.chores.Go(s.mendLog)
	return s, nil
}

// openRunner takes the launcher's binary: once, so that nothing changes it while we live.
func openRunner(path string) (*os.File, error) {
	if path == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(filepath.Dir(own), runner.Name)
	}
	return runner.OpenBinary(path)
}

// openGroup makes the daemon's cgroup, after the groups of daemons that died are killed and removed.
func (s *Service) openGroup() (err error) {
	if s.host.Cgroup.Base == "" {
		return nil
	}
	if err := s.host.Cgroup.CleanStale(isRunning); err != nil {
		s.logger.Warn("cgroups of a daemon that died", "error", err)
	}
	s.group, err = s.host.Cgroup.Make(s.host.Cgroup.Daemon, -1)
	return err
}

func (s *Service) openEngine(ctx context.Context) (err error) {
	options := engine.Options{Dir: s.config.PolicyDir, Deadline: s.config.DecisionTimeout, Logger: s.logger, OnReload: s.reloaded}
	if options.Dir == "" {
		options.FS = rego.Bundle
	}
	s.engine, err = engine.Open(ctx, options)
	return err
}

// reloaded records a reload, and one that didn't come to be.
func (s *Service) reloaded(status engine.Status) {
	r := audit.Record{Type: audit.TypeReload, Message: status.Error, Daemon: &audit.Daemon{Revision: status.Revision}}
	result := "ok"
	if status.Stale {
		result = "stale"
	}
	s.metrics.reloads.WithLabelValues(result).Inc()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.RecordTimeout)
	defer cancel()
	if _, err := s.log.Append(ctx, r); err != nil {
		s.logger.Error("audit", "type", r.Type, "error", err)
	}
}

// recordStart settles what the daemon before us left, then writes the start record: the next daemon looks no further back.
func (s *Service) recordStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.RecordTimeout)
	defer cancel()
	for _, u := range s.log.Unfinished() {
		r := audit.Record{
			Type: audit.TypeInterrupted, Exec: u.Exec, Sandbox: u.Sandbox,
			Message: fmt.Sprintf("released by record %d; its daemon ended before its outcome was known", u.Sequence),
		}
		if _, err := s.log.Append(ctx, r); err != nil {
			return err
		}
	}
	_, err := s.log.Append(ctx, audit.Record{Type: audit.TypeStart, Daemon: &audit.Daemon{
		Version: s.config.Version, PID: os.Getpid(), UID: os.Geteuid(), Kernel: s.host.Kernel, BootID: s.host.BootID,
		Tier: string(s.host.Tier()), Revision: s.engine.Status().Revision,
	}})
	return err
}

// mendLog tries a broken log again from time to time: a disk that was full needs no restart.
func (s *Service) mendLog() {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-ticker.C:
			if s.log.Err() == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
			if err := s.log.Reopen(ctx); err != nil {
				s.logger.Error("audit: still broken, nothing is released", "error", err)
			} else {
				s.logger.Info("audit: written again")
			}
			cancel()
		}
	}
}

// Close kills what runs, waits until that is recorded, closes every sandbox and writes the stop record. ctx bounds the wait for the walks.
func (s *Service) Close(ctx context.Context) error {
	var err error
	s.closed.Do(func() { err = s.close(ctx) })
	return err
}

func (s *Service) close(ctx context.Context) error {
	s.beginStop()
	var wrong []error
	walked := make(chan struct{})
	go func() { s.walks.Wait(); close(walked) }()
	select {
	case <-walked:
	case <-ctx.Done():
		wrong = append(wrong, errors.New("stop: some requests have not ended in time"))
	}
	s.chores.Wait()
	s.sandboxes.closeAll()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.RecordTimeout)
	defer cancel()
	if _, err := s.log.Append(bounded, audit.Record{Type: audit.TypeStop}); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(append(wrong, s.giveUp())...)
}

// beginStop lets no walk begin any more and ends those on their way.
func (s *Service) beginStop() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.die()
}

func (s *Service) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// giveUp closes what is open.
func (s *Service) giveUp() error {
	var wrong []error
	if s.engine != nil {
		wrong = append(wrong, s.engine.Close())
	}
	if s.log != nil {
		wrong = append(wrong, s.log.Close())
	}
	if s.group != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.config.KillTimeout)
		defer cancel()
		if err := s.group.Destroy(ctx); !errors.Is(err, os.ErrNotExist) {
			wrong = append(wrong, err) // one that somebody has removed is as good
		}
	}
	s.ids.close()
	if s.binary != nil {
		wrong = append(wrong, s.binary.Close())
	}
	return errors.Join(wrong...)
}
