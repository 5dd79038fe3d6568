package runner

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
)

// stressVariable asks for more execs than the usual number.
const stressVariable = "GATE_STRESS"

// Many execs while the daemon's collector runs all the time: none fails, and neither descriptors nor zombies nor the worker's memory grow.
func TestStress(t *testing.T) {
	both(t, func(t *testing.T) {
		execs := 1000
		if asked, err := strconv.Atoi(os.Getenv(stressVariable)); err == nil {
			execs = asked
		}
		const callers = 4
		config := testConfig(t)
		config.MaxWorkers = callers
		s := startSandbox(t, config)
		plan := testPlan(t, s)
		inv := enforcer.Invocation{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Cwd: "/work"}
		for range callers {
			if err := quick(s, plan, inv); err != nil {
				t.Fatal(err)
			}
		}
		defer debug.SetGCPercent(debug.SetGCPercent(1))
		stop := garbage()
		before := descriptorsOf(t, os.Getpid())
		var left, failures atomic.Int64
		left.Store(int64(execs))
		var all sync.WaitGroup
		start := time.Now()
		for range callers {
			all.Go(func() {
				for left.Add(-1) >= 0 && failures.Load() < 10 {
					if err := quick(s, plan, inv); err != nil {
						failures.Add(1)
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		stop()
		t.Logf("%d execs, %.0f a second", execs, float64(execs)/time.Since(start).Seconds())
		if after := descriptorsOf(t, os.Getpid()); after > before+2*callers {
			t.Errorf("%d descriptors, %d before", after, before)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range s.idle {
			if os.Geteuid() == 0 && descriptorsOf(t, w.pid) > 8 {
				t.Errorf("a worker has %d descriptors", descriptorsOf(t, w.pid))
			}
			if none, err := childless(w.pid); err != nil || !none {
				t.Errorf("a worker has children (%v)", err)
			}
			t.Log("worker: RSS", statusLine(t, w.pid, "VmRSS"), "anonymous", statusLine(t, w.pid, "RssAnon"))
		}
	})
}

// The worker's own collector, and the timers and the epoll instance that it makes the runtime have, don't meet the worker's descriptors.
func TestWorkerCollects(t *testing.T) {
	both(t, func(t *testing.T) {
		w := outsideWorker(t, collectVariable+"=1")
		for i := range 300 {
			k := &kept{}
			c, err := outside(t, w, k, outsidePlan(), "exit 0")
			if err != nil {
				t.Fatal(i, err)
			}
			err = errors.Join(c.Release(), c.Started(context.Background()))
			if exit := c.Wait(context.Background()); err != nil || !exit.Known || !k.clean {
				t.Fatal(i, err, exit)
			}
		}
		if n := descriptorsOf(t, w.pid); n > 8 {
			t.Errorf("the worker has %d descriptors", n)
		}
	})
}

func quick(s *Sandbox, plan enforcer.Plan, inv enforcer.Invocation) error {
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 10})
	if err != nil {
		return err
	}
	err = errors.Join(c.Release(), c.Started(context.Background()))
	if exit := c.Wait(context.Background()); !exit.Known || exit.Status != 0 || !exit.TreeEmpty {
		return errors.Join(err, errors.New("exit: "+statusText(exit.Status)))
	}
	return err
}

// garbage keeps the collector busy until it is stopped.
func garbage() (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.KeepAlive(bytes.Repeat([]byte(strings.Repeat("x", 10)), 100))
				runtime.Gosched()
			}
		}
	})
	return func() {
		close(done)
		all.Wait()
	}
}
