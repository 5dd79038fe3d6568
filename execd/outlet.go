package execd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/network/names"
	"github.com/sandboxd/sandboxd/enforcer/network/relay"
	"github.com/sandboxd/sandboxd/policy"
)

// outlet is a sandbox's one way out: who answers its names and who carries its connections, on the sockets of its fence, and the rules that both
// judge by. While its rules let nothing out nobody serves these sockets, and the kernel refuses whatever is tried.
//
// One sandbox is one trust domain: its programs share the way out, and nobody can tell whose connection one is. So each exec that asks for less
// makes it smaller for all while it runs, and none makes it wider.
type outlet struct {
	box     *sandbox
	outlets *outlets
	fence   *fence.Fence

	// inForce is made of what mu guards, under mu; names and relay read it for each query and connection.
	inForce atomic.Pointer[network.Set]

	mu    sync.Mutex
	names *names.Server // nil until something was let out
	relay *relay.Server
	// served ends when both have.
	served sync.WaitGroup
	own    *network.Rules
	// execs are the rules of those that run, by id.
	execs map[string]*network.Rules
	// generation counts the changes of own.
	generation int64
	// watched: changes of the fence are noticed.
	watched bool
	// shut: nothing goes out any more, whatever is asked.
	shut bool

	// present are the execs of the sandbox, from before their release until their trees are gone.
	present present

	// repairing is held while a fence is looked at again and made anew; repaired, which it guards, says that it was, once. What changes it again isn't an
	// accident.
	repairing sync.Mutex
	repaired  bool

	// probed: what asks for a way out is our own probes, and nothing to write down.
	probed atomic.Bool
}

// closedRules let nothing out.
var closedRules = func() *network.Rules {
	rules, err := network.Compile(policy.NetworkSpec{})
	if err != nil {
		panic("bug: an empty network spec doesn't compile; please report this: " + err.Error())
	}
	return rules
}()

// outlets is what all of them share.
type outlets struct {
	config   Config
	logger   *slog.Logger
	resolver *names.Resolver
	capacity *relay.Capacity
	// lack is why there is no capacity.
	lack    error
	metrics *networkMetrics
	egress  *egress
	// changed is told that somebody has changed links, addresses, routes or rules of a sandbox's network.
	changed func(*sandbox)
}

// newOutlet makes the outlet of a sandbox that has a fence. It lets nothing out yet.
func (o *outlets) newOutlet(box *sandbox, f *fence.Fence) *outlet {
	out := &outlet{box: box, outlets: o, fence: f, own: closedRules, execs: map[string]*network.Rules{}}
	out.refresh()
	return out
}

// errShut says that a sandbox's network was shut off, which is for good.
var errShut = errors.New("the sandbox's network is shut off; delete the sandbox")

// open has the fence's sockets served. The caller holds mu.
func (out *outlet) open() (err error) {
	if out.relay != nil {
		return nil
	}
	if out.outlets.lack != nil {
		return &enforcer.RefusedError{Field: "network.egress", Lack: "network.descriptors", Message: sentence(out.outlets.lack), HowTo: "raise the limit, and start again"}
	}
	if out.names, err = names.NewServer(out.namesConfig()); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	own, err := ownAddresses()
	if err != nil {
		return fmt.Errorf("network: addresses of this host: %w", err)
	}
	if out.relay, err = relay.New(out.relayConfig(own)); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	sockets, err := out.fence.Open()
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	serve := func(run func() error) {
		out.served.Go(func() {
			if err := run(); err != nil && !errors.Is(err, net.ErrClosed) {
				out.outlets.logger.Error("network", "sandbox", out.box.id, "error", err)
			}
		})
	}
	if len(sockets.Names) > 0 {
		serve(func() error { return out.names.Serve(sockets.Names, sockets.NamesTCP) })
	}
	for _, listener := range sockets.Relay {
		serve(func() error { return out.relay.Serve(listener) })
	}
	for _, socket := range sockets.Datagrams {
		serve(func() error { return out.relay.ServeDatagrams(socket) })
	}
	out.served.Go(func() {
		// As they came, the kernel's own refusals are judged and told like the relay's.
		if err := out.fence.Refusals(context.Background(), func(r fence.Refusal) { out.relay.Refused(r.Destination, r.Lost) }); err != nil {
			out.outlets.logger.Error("network", "sandbox", out.box.id, "error", err)
		}
	})
	out.watching()
	return nil
}

// watch has changes of the fence noticed also while it lets nothing out.
func (out *outlet) watch() {
	out.mu.Lock()
	defer out.mu.Unlock()
	out.watching()
}

// watching is watch with mu held. It ends when the fence is closed.
func (out *outlet) watching() {
	if out.watched {
		return
	}
	out.watched = true
	out.served.Go(func() {
		if err := out.fence.Watch(context.Background(), func() { out.outlets.changed(out.box) }); err != nil {
			out.outlets.logger.Error("network", "sandbox", out.box.id, "error", err)
		}
	})
}

func (out *outlet) judge() network.Set { return *out.inForce.Load() }

// refresh puts what mu guards in force, and cuts what no longer fits.
func (out *outlet) refresh() {
	rules := []*network.Rules{out.own}
	if out.shut {
		rules = []*network.Rules{closedRules}
	}
	for _, id := range slices.Sorted(maps.Keys(out.execs)) {
		rules = append(rules, out.execs[id])
	}
	set := network.All(rules...)
	out.inForce.Store(&set)
	if out.relay != nil {
		out.relay.Tighten()
	}
}

// set makes rules the sandbox's own, and gives their generation. They judge before the fence lets through by them, whichever way they change: an address that
// is let through and not allowed is refused by the relay, and one that is allowed and not yet let through by the kernel.
func (out *outlet) set(rules *network.Rules) (int64, error) {
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.shut {
		return 0, errShut
	}
	if !rules.Spec().DenyAll() {
		if err := out.open(); err != nil {
			return 0, err
		}
	}
	out.own = rules
	out.generation++
	out.refresh()
	return out.generation, out.fence.Admit(reach(rules))
}

// rules are the sandbox's own, with their generation.
func (out *outlet) rules() (*network.Rules, int64) {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.own, out.generation
}

// join has an exec's rules hold while it runs. They may only be tighter than the sandbox's.
func (out *outlet) join(exec string, rules *network.Rules) error {
	out.mu.Lock()
	defer out.mu.Unlock()
	if err := policy.WithinNetwork(rules.Spec(), out.own.Spec()); err != nil {
		return &deniedError{[]policy.Reason{{
			Rule: "host.sandbox", Field: "network",
			Message: "the sandbox's network doesn't let that out (" + sentence(err) + "); change the sandbox's first, or ask for less",
		}}}
	}
	out.execs[exec] = rules
	out.refresh()
	return nil
}

// leave ends what join began.
func (out *outlet) leave(exec string) {
	out.mu.Lock()
	defer out.mu.Unlock()
	if _, joined := out.execs[exec]; joined {
		delete(out.execs, exec)
		out.refresh()
	}
}

// tightenedBy are the execs whose rules hold besides.
func (out *outlet) tightenedBy() []string {
	out.mu.Lock()
	defer out.mu.Unlock()
	return append([]string{}, slices.Sorted(maps.Keys(out.execs))...)
}

// stats are the relay's, if it serves.
func (out *outlet) stats() relay.Stats {
	out.mu.Lock()
	relayed := out.relay
	out.mu.Unlock()
	if relayed == nil {
		return relay.Stats{}
	}
	return relayed.Stats()
}

// shutOff lets nothing out any more, for good, whatever state the fence is in.
func (out *outlet) shutOff() {
	out.mu.Lock()
	defer out.mu.Unlock()
	out.shut = true
	out.refresh()
	if err := out.fence.Shut(); err != nil {
		out.outlets.logger.Error("network: shut", "sandbox", out.box.id, "error", err)
	}
}

// close ends everything, and returns when nothing of it runs.
func (out *outlet) close() {
	out.shutOff()
	out.mu.Lock()
	names, relay := out.names, out.relay
	out.mu.Unlock()
	if relay != nil {
		names.Close()
		relay.Close()
		out.outlets.metrics.ended(relay.Stats())
	}
	out.fence.Close()
	out.served.Wait()
}
