package execd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/runner"
)

// Service is one sandboxd: policy, sandboxes, the log, and the walk. [New] starts it, [Service.Close] ends it.
type Service struct {
	config   Config
	logger   *slog.Logger
	began    time.Time
	host     enforcer.Host
	profiles enforcer.Profiles
	engine   *engine.Engine
	// interim is the policy under which the place is proven while none is bound; binding is the one that was, which bindingNow is held for.
	interim    *engine.Engine
	binding    atomic.Pointer[Binding]
	bindingNow sync.Mutex
	log        *audit.Log
	binary     *os.File
	group      *cgroup.Group
	ids        *ids
	sandboxes  *sandboxes
	images     *images
	queue      *queue
	// bodies bounds the memory of requests on their way in.
	bodies *budget
	// spool has the inputs and values that are too long for memory.
	spool   *spool.Store
	metrics *metrics
	running running
	egress  *egress
	proofs  proofs
	// interpreters wait for jobs; active counts requests on their way.
	interpreters *interpreters
	active       atomic.Int64
	walked       atomic.Int64 // requests that have come so far
	driver       *compiledDriver
	// pattern is a sandbox plan as fresh sandboxes of the host's own directories have it: what a dry run is built against.
	pattern enforcer.SandboxPlan
	// podPlan is the fence by uid, where launchers connect.
	podPlan fence.Plan

	// asked ends when somebody who may has asked for the stop.
	asked   context.Context
	askStop context.CancelFunc

	// life ends when the service stops: every walk's context hangs on it.
	life context.Context
	die  context.CancelFunc
	// chores are the service's own goroutines.
	chores sync.WaitGroup

	mu       sync.Mutex // guards closing and draining, and that no walk begins after them
	closing  bool
	draining bool // no request begins, and those on their way go on
	walks    sync.WaitGroup
	closed   sync.Once
}

// New probes the host, loads the policy, opens the log, settles what a daemon that died has left, and starts to make sandboxes. Nothing is
// started that a faulty config or a host that can't hold a sandbox would leave half done.
func New(ctx context.Context, c Config) (_ *Service, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Service{config: c, logger: c.Logger, began: time.Now(), profiles: enforcer.Profiles{Dir: c.ProfileDir}}
	s.life, s.die = context.WithCancel(context.Background())
	s.asked, s.askStop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.die()
			err = errors.Join(err, s.giveUp())
		}
	}()
	if s.binary, err = openRunner(c.RunnerPath); err != nil {
		return nil, err
	}
	if err := s.probe(); err != nil {
		return nil, err
	}
	if err := c.checkDescriptors(s.host.RLimits["nofile"]); err != nil {
		return nil, err
	}
	if err := s.openGroup(); err != nil {
		return nil, err
	}
	if !c.Attach.on() { // else nobody's ids are ours to give
		if s.ids, err = openIDs(c); err != nil {
			return nil, err
		}
	}
	s.queue = newQueue(c)
	s.bodies = newBudget(c.RequestMemory, "the requests that are here take as much memory as this daemon allows")
	if s.spool, err = spool.New(filepath.Join(c.StateDir, "spool"), c.SpoolBytes); err != nil {
		return nil, err
	}
	s.images = newImages(c)
	if err := s.images.importAll(ctx, c); err != nil {
		return nil, err
	}
	s.sandboxes = newSandboxes(s.life, c, s.host, s.binary, s.ids, s.group, s.images)
	if c.Attach.on() {
		s.openAttached()
	} else if s.pattern, err = enforcer.BuildSandbox(s.host, s.sandboxes.spec(0, rootSpec{})); err != nil {
		return nil, err
	}
	if s.log, err = openLog(c); err != nil {
		return nil, err
	}
	if err := s.openNetwork(); err != nil {
		return nil, err
	}
	if err := s.proofs.open(filepath.Join(c.StateDir, "probes.json"), s.host); err != nil {
		s.logger.Warn("earlier proofs by probes aren't used", "error", err)
	}
	s.interpreters = newInterpreters(s)
	s.driver = newCompiledDriver(s)
	s.metrics = newMetrics(s)
	if err := s.openEngine(ctx); err != nil {
		return nil, err
	}
	if err := s.recordStart(ctx); err != nil {
		return nil, err
	}
	if c.Attach.on() {
		s.chores.Go(s.attachLaunchers)
	} else {
		s.sandboxes.startFilling()
	}
	s.chores.Go(s.mendLog)
	s.chores.Go(s.watchDrift)
	s.chores.Go(s.egress.write)
	if c.CompileDriver {
		s.chores.Go(s.driver.make)
	}
	if len(c.Prewarm) > 0 {
		s.chores.Go(s.interpreters.fill)
	}
	return s, nil
}

// probe asks the host what it can do.
func (s *Service) probe() (err error) {
	if s.config.Attach.on() {
		return s.probeAttached()
	}
	s.host, err = enforcer.ProbeHost(enforcer.HostConfig{Show: s.config.Show})
	return err
}

// Spool is where texts are kept that are too long for memory: a façade has its long inputs there.
func (s *Service) Spool() *spool.Store { return s.spool }

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
	if s.config.Late.On {
		return s.openLate(ctx)
	}
	if s.sealed().exists() {
		return fmt.Errorf("%s: a policy was bound to this state directory, for good; serve with --policy-late, or with another --state", s.sealed().dir)
	}
	options := engine.Options{Dir: s.config.PolicyDir, Deadline: s.config.DecisionTimeout, Logger: s.logger, OnReload: s.reloaded}
	if options.Dir == "" {
		options.FS, options.Tested = rego.Bundle, s.config.TestedPolicy
	}
	s.engine, err = engine.Open(ctx, options)
	return err
}
