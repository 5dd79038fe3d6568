package main

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// target is the program of all exec rows: dynamic, does nothing.
const target = "/bin/true"

// service is a daemon in this process, and one sandbox of it that is used again and again.
type service struct {
	*execd.Service
	box string
}

// service starts a daemon in this process, with its log in the given place, and one sandbox that is used again and again. The sandbox is made
// over the socket, as a caller would; the execs then are calls, so that the rows are of the walk and not of HTTP.
func (b *bench) service(state string) (*service, error) {
	config := execd.DefaultConfig(state)
	config.RunnerPath = filepath.Join(b.dir, "sandboxd-runner")
	config.Pool = 0
	daemon, err := execd.New(b.ctx, config)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(state, "socket", "sandboxd.sock")
	listener, err := execd.Listen(socket, []int{os.Geteuid()})
	if err != nil {
		return nil, err
	}
	go func() { _ = daemon.Serve(b.ctx, listener) }()
	response, err := clientOf(socket).Post("http://sandboxd/v1/sandboxes", "application/json", strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var box struct {
		ID string `json:"id"`
	}
	if err := json.UnmarshalRead(response.Body, &box); err != nil || box.ID == "" {
		return nil, fmt.Errorf("making a sandbox: status %d: %w", response.StatusCode, err)
	}
	return &service{daemon, box.ID}, nil
}

func clientOf(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

func caller() policy.Caller {
	return policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), Via: "socket"} // whose sandbox it is
}

func request(sandbox string, argv ...string) policy.Request {
	return policy.Request{Action: policy.ActionExec, Caller: caller(), Sandbox: sandbox, Command: policy.Command{Argv: argv}}
}

// bare is what everything is compared with: the same program, started and awaited by this process.
func bare() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	process, err := os.StartProcess(target, []string{target}, &os.ProcAttr{Files: []*os.File{null, null, null}})
	if err != nil {
		return err
	}
	_, err = process.Wait()
	return err
}

func gated(ctx context.Context, s *execd.Service, sandbox string) error {
	reply := s.Exec(ctx, request(sandbox, target), execd.Options{})
	if reply.Outcome != execd.OutcomeOK {
		return fmt.Errorf("outcome %s: %s", reply.Outcome, reply.Message)
	}
	return nil
}

// kind is one way of starting the target.
type kind struct {
	name string
	act  func() error
}

// interleaved times every kind rounds times with that many callers: all callers do a batch of one kind, then of the next, so that a busy moment of
// the machine hits all kinds. It returns the times and the rate of each.
func interleaved(callers, rounds int, kinds []kind) (map[string]sample, map[string]float64, error) {
	times, spent, done := map[string]sample{}, map[string]time.Duration{}, map[string]int{}
	const batch = 20
	for range max(rounds/batch, 1) {
		for _, kind := range kinds {
			var mu sync.Mutex
			var wait sync.WaitGroup
			var failed error
			begin := time.Now()
			for range callers {
				wait.Go(func() {
					for range batch {
						took, err := timed(kind.act)
						mu.Lock()
						times[kind.name] = append(times[kind.name], took)
						if err != nil {
							failed = err
						}
						mu.Unlock()
					}
				})
			}
			wait.Wait()
			if failed != nil {
				return nil, nil, fmt.Errorf("%s: %w", kind.name, failed)
			}
			spent[kind.name] += time.Since(begin)
			done[kind.name] += callers * batch
		}
	}
	rates := map[string]float64{}
	for name, n := range done {
		rates[name] = float64(n) / spent[name].Seconds()
	}
	return times, rates, nil
}

// execs are the first rows: all layers, read-back and record. A process has one service, so the log on disk has a run of its own, with its own bare
// spawns beside it.
func execs(b *bench) error {
	inMemory, times, err := b.oneCaller(b.memory)
	if err != nil {
		return err
	}
	one := ratio(times["gated"].p50(), times["bare"].p50())
	b.add("gated exec of /bin/true, all layers, read-back and record (log in memory), over a bare spawn; 1 caller, p50", "≤ 2.0 ×",
		fmt.Sprintf("%.2f × (%s / %s)", one, short(times["gated"].p50()), short(times["bare"].p50())), met(one, 2))
	fourTimes, rates, err := interleaved(4, b.rounds, inMemory.kinds(b))
	if err != nil {
		return err
	}
	p50, p99 := ratio(fourTimes["gated"].p50(), fourTimes["bare"].p50()), ratio(fourTimes["gated"].p99(), fourTimes["bare"].p99())
	b.add("the same with 4 callers, p50", "≤ 1.3 ×", fmt.Sprintf("%.2f × (%s / %s)", p50, short(fourTimes["gated"].p50()), short(fourTimes["bare"].p50())), met(p50, 1.3))
	b.add("the same with 4 callers, p99", "≤ 4 ×", fmt.Sprintf("%.2f × (%s / %s)", p99, short(fourTimes["gated"].p99()), short(fourTimes["bare"].p99())), met(p99, 4))
	rate := rates["gated"] / rates["bare"]
	b.add("sustained gated execs, 4 callers, of bare's rate", "≥ 0.55", fmt.Sprintf("%.2f (%.0f/s of %.0f/s)", rate, rates["gated"], rates["bare"]), met(0.55, rate))
	if err := b.fresh(inMemory); err != nil {
		return err
	}
	if err := inMemory.Close(b.ctx); err != nil {
		return err
	}

	onDisk, durable, err := b.oneCaller(filepath.Join(b.dir, "state"))
	if err != nil {
		return err
	}
	// The bare spawns of both runs tell how much faster or slower the machine was meanwhile.
	expected := time.Duration(float64(times["gated"].p50()) * ratio(durable["bare"].p50(), times["bare"].p50()))
	extra, sync := durable["gated"].p50()-expected, b.fsync()
	b.add("durable record (log on disk) on top, p50", "≤ one fsync",
		fmt.Sprintf("%s; one fdatasync of 700 B here: %s", short(extra), short(sync)), met(float64(extra), float64(sync)))
	return onDisk.Close(b.ctx)
}

// fresh: an exec without a sandbox of its own pays for one. This service has no pool, so that all of it shows.
func (b *bench) fresh(s *service) error {
	kinds := []kind{{"bare", bare}, {"fresh", func() error { return gated(b.ctx, s.Service, "") }}}
	times, _, err := interleaved(1, min(b.rounds, 100), kinds)
	if err != nil {
		return err
	}
	b.add("gated exec in a fresh sandbox, made and ended for it alone, no pool, p50", "–",
		fmt.Sprintf("%.1f × (%s / %s)", ratio(times["fresh"].p50(), times["bare"].p50()), short(times["fresh"].p50()), short(times["bare"].p50())), "–")
	return nil
}

// oneCaller starts a service, warms it, and times a single caller.
func (b *bench) oneCaller(state string) (*service, map[string]sample, error) {
	s, err := b.service(state)
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := interleaved(4, 40, s.kinds(b)); err != nil { // workers, dentries, caches
		return nil, nil, err
	}
	times, _, err := interleaved(1, b.rounds, s.kinds(b))
	return s, times, err
}

func (s *service) kinds(b *bench) []kind {
	return []kind{{"bare", bare}, {"gated", func() error { return gated(b.ctx, s.Service, s.box) }}}
}

// fsync is the median of a 700-byte append made durable, on the disk where the log is.
func (b *bench) fsync() time.Duration {
	file, err := os.OpenFile(filepath.Join(b.dir, "fsync"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0
	}
	defer file.Close()
	line := make([]byte, 700)
	var times sample
	for range 200 {
		took, err := timed(func() error {
			if _, err := file.Write(line); err != nil {
				return err
			}
			return unix.Fdatasync(int(file.Fd()))
		})
		if err != nil {
			return 0
		}
		times = append(times, took)
	}
	return times.p50()
}
