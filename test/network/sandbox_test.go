package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/network/names"
	"github.com/sandboxd/sandboxd/enforcer/network/relay"
	"github.com/sandboxd/sandboxd/policy"
)

// sandbox is the network of one: fence, names and relay, without the confinement of programs, so that it is the network that is tried.
type sandbox struct {
	place
	rules  atomic.Pointer[network.Rules]
	relay  *relay.Server
	fenced *fence.Fence

	mu      sync.Mutex
	refused []string
}

// rules in one line: "deny c.example.net, allow *.example.net 443 8443, default allow".
func spec(t testing.TB, text string) policy.NetworkSpec {
	t.Helper()
	var s policy.NetworkSpec
	for line := range strings.SplitSeq(text, ",") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == "default":
			s.DefaultAction = words[1]
			continue
		}
		rule := policy.EgressRule{Action: words[0], Target: words[1]}
		for _, word := range words[2:] {
			var port int
			if _, err := fmt.Sscan(word, &port); err != nil {
				t.Fatal(err)
			}
			rule.Ports = append(rule.Ports, port)
		}
		s.Egress = append(s.Egress, rule)
	}
	return s.Defaulted()
}

func (s *sandbox) judgeBy(t testing.TB, text string) {
	t.Helper()
	rules, err := network.Compile(spec(t, text))
	if err != nil {
		t.Fatal(err)
	}
	s.rules.Store(rules)
}

func (s *sandbox) set() network.Set { return network.All(s.rules.Load()) }

// refusals are what was told of: "names: NAME: reason", "relay: NAME or address: reason".
func (s *sandbox) refusals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// toldOf waits until a line was told, since a client may see the end of its connection first; where none may be, it looks once.
func toldOf(line string, told func() []string) (all []string, right bool) {
	if line == "" {
		all = told()
		return all, len(all) == 0
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if all = told(); slices.Contains(all, line) {
			return all, true
		}
		if time.Now().After(deadline) {
			return all, false
		}
	}
}

func (s *sandbox) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, fmt.Sprintf(format, args...))
}

func newSandbox(t *testing.T, w *World, rules string) *sandbox {
	t.Helper()
	s := &sandbox{place: place{w: w}}
	s.judgeBy(t, rules)
	s.fence(t)
	sockets, err := s.fenced.Open()
	if err != nil {
		t.Fatal(err)
	}
	s.admit(t)
	resolver, err := names.NewResolver(names.DefaultResolverConfig(w.Resolver))
	if err != nil {
		t.Fatal(err)
	}
	server := s.names(t, resolver)
	s.serveRelay(t, server)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(sockets.Names, sockets.NamesTCP); err != nil {
			t.Error("names:", err)
		}
	})
	for _, listener := range sockets.Relay {
		serving.Go(func() {
			if err := s.relay.Serve(listener); !errors.Is(err, net.ErrClosed) {
				t.Error("relay:", err)
			}
		})
	}
	serving.Go(func() {
		if err := s.fenced.Refusals(context.Background(), func(r fence.Refusal) { s.relay.Refused(r.Destination, r.Lost) }); err != nil {
			t.Error("refusals:", err)
		}
	})
	t.Cleanup(func() {
		server.Close()
		s.relay.Close()
		resolver.Close()
		s.fenced.Close()
		serving.Wait()
	})
	return s
}

// admit has the fence let through to the relay what the rules open, the proxy, and what stands for names.
func (s *sandbox) admit(t *testing.T) {
	t.Helper()
	rules := s.rules.Load()
	spans := append(rules.Reach(), [2]netip.Addr{proxyAddress.Addr(), proxyAddress.Addr()})
	if rules.SomeName() {
		spans = append(spans, [2]netip.Addr{names.DefaultRange.Addr(), network.LastOf(names.DefaultRange)})
	}
	if err := s.fenced.Admit(fence.Reach{Ranges: spans}); err != nil {
		t.Fatal(err)
	}
}

// fence makes the sandbox's namespace, on a thread that ends with it.
func (s *sandbox) fence(t *testing.T) {
	type result struct {
		namespace *os.File
		fds       []int
		err       error
	}
	made := make(chan result)
	plan := fence.AnyIP(true, true)
	go func() {
		runtime.LockOSThread() // and never unlocked
		var r result
		if r.err = unix.Unshare(unix.CLONE_NEWNET); r.err == nil {
			if r.namespace, r.err = os.Open("/proc/thread-self/ns/net"); r.err == nil {
				r.fds, r.err = fence.Apply(plan, fence.Here)
			}
		}
		made <- r
	}()
	r := <-made
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.namespace.Close() })
	var err error
	if s.fenced, err = fence.Hold(plan, r.fds); err != nil {
		t.Fatal(err)
	}
	s.enter = func(command *exec.Cmd) error {
		started := make(chan error)
		go func() {
			runtime.LockOSThread()
			err := unix.Setns(int(r.namespace.Fd()), unix.CLONE_NEWNET)
			if err == nil {
				err = command.Start()
			}
			started <- err
		}()
		return <-started
	}
}

func (s *sandbox) names(t *testing.T, resolver *names.Resolver) *names.Server {
	config := names.DefaultConfig()
	config.Resolver = resolver
	config.Resolvable = func(name string) names.Match { return nameMatch(s.set().Resolvable(name)) }
	config.Resolved = func(name string, a netip.Addr) names.Match { return nameMatch(s.set().Reachable(name, a)) }
	config.Denied = func(d names.Denial) { s.tell("names: %s %s: %s (rule %d)", d.Name, d.Type, d.Reason, d.Rule) }
	server, err := names.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func nameMatch(m network.Match) names.Match {
	return names.Match{Allow: m.Allow, Rule: m.Rule, In: m.In, Reason: m.Reason}
}

var proxyAddress = netip.MustParseAddrPort("198.19.255.2:3128")

func (s *sandbox) serveRelay(t *testing.T, server *names.Server) {
	capacity, err := relay.NewCapacity(1000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(capacity.Close)
	s.relay, err = relay.New(relay.Config{
		Judge: s.set, NameOf: server.NameOf, Capacity: capacity, Proxy: proxyAddress, Port: fence.RelayPort, Destination: fence.Destination,
		Resolve: server.Resolve,
		Own:     []netip.Prefix{names.DefaultRange, netip.PrefixFrom(fence.Own4, 32), netip.PrefixFrom(fence.Own6, 128)},
		Event: func(e relay.Event) {
			to := e.Name
			if to == "" {
				to = e.Destination.String()
			}
			s.tell("relay: %s %s: %s (rule %d)", e.Kind, to, e.Reason, e.Rule)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
