package execd

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// TestProvenAtStart: a service that begins to serve has the default plan tried, and the same with a network that lets something out.
func TestProvenAtStart(t *testing.T) {
	c := testConfig(t)
	c.ProbeInterval = time.Hour
	plans := 1
	if probedHost(t).Fence {
		plans = 2
	}
	d := serve(t, c)
	known := func(s *Service) int {
		s.proofs.mu.Lock()
		defer s.proofs.mu.Unlock()
		return len(s.proofs.known)
	}
	until(t, "proven", func() bool { return known(d.service) == plans })
	row := proven(d.service.Exec(t.Context(), command("true"), Options{Rows: true}))
	if row == nil || !row.Held {
		t.Errorf("%+v", row)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	verified := func() (count int) {
		for _, r := range readLog(t, c) {
			if r.Type == audit.TypeVerify {
				count++
			}
			if r.Type == audit.TypeEgress {
				t.Errorf("what our own probes do is on record as a program's: %+v", r.Egress)
			}
		}
		return count
	}
	if got := verified(); got != 2*plans {
		t.Errorf("%d records of what was tried", got)
	}
	// The next one on this boot knows of it, and tries nothing.
	next := start(t, c)
	if err := next.provePlans(); err != nil || known(next) != plans || verified() != 2*plans {
		t.Errorf("%v, %d plans known, %d records", err, known(next), verified())
	}
}

// openPlan is the plan of an exec whose network lets something out, and a fresh sandbox for it.
func openPlan(t *testing.T, s *Service) (enforcer.Plan, *sandbox) {
	t.Helper()
	box, err := s.sandboxes.take(t.Context(), "", Self(), rootSpec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.sandboxes.putBack(box) })
	plan, there := s.relayPlan(t.Context(), box)
	if !there {
		t.Skip("nothing can be let out here: ", s.host.FenceWhy)
	}
	if plan.Network != enforcer.NetworkRelay || plan.Landlock.HandledNet != 0 {
		t.Fatalf("%s, Landlock's rights %#x", plan.Network, plan.Landlock.HandledNet)
	}
	return plan, box
}

// TestProvenRelay: with a relay that lets something out, whatever else is tried is refused by it, by the resolver or by the fence, each in its own words. A
// relay or a resolver that is gone is told from one that refuses.
func TestProvenRelay(t *testing.T) {
	s := start(t, testConfig(t))
	plan, box := openPlan(t, s)
	proof, err := s.prove(t.Context(), box, plan)
	if err != nil || !proof.held() {
		t.Fatalf("%+v, %v", proof.Failed, err)
	}
	for control, want := range map[string]string{
		"network.metadata, NAT64": "ECONNREFUSED", "network.another resolver": enforcer.AskedRefused, "network.another resolver, tcp": enforcer.AskedRefused,
		"network.QUIC": "ECONNREFUSED", "network.the relay's port": "ECONNRESET", "network.take the relay's port": "EADDRINUSE",
	} {
		if i := slices.IndexFunc(proof.rows, func(r policy.Row) bool { return r.Control == control }); i < 0 || proof.rows[i].Got != want {
			t.Errorf("%s: want %s in %+v", control, want, proof.rows)
		}
	}
	box.outlet.relay.Close()
	box.outlet.names.Close()
	proof, err = s.prove(t.Context(), box, plan)
	if err != nil || !hasRow(proof.Failed, "network.the relay's port") || !hasRow(proof.Failed, "network.another resolver") {
		t.Errorf("%+v, %v", proof.Failed, err)
	}
	if len(s.troubles()) != 1 {
		t.Errorf("%v", s.troubles())
	}
}

// under runs a script in a sandbox under a plan, released as it is.
func under(t *testing.T, box *sandbox, plan enforcer.Plan, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	child, err := box.Prepare(ctx, plan, enforcer.Invocation{
		Argv: []string{"bash", "-c", script}, Env: []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}, Cwd: "/",
	}, runner.IO{OutputBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	_ = child.Started(ctx) // the exit says it
	exit := child.Wait(ctx)
	return string(exit.Stdout.Data) + string(exit.Stderr.Data)
}

// TestDenyAllWithoutLandlock: before Linux 6.7 Landlock holds no TCP. An exec that may not get out, in a sandbox where others may, is held by the rules that it
// joins: TCP to an address that the sandbox's rules allow, names, and the rest by the fence.
func TestDenyAllWithoutLandlock(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash to connect with")
	}
	ask := resolves(t)
	c := networked(t, "a.example", documentation)
	s := start(t, c)
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	change := policy.Request{Action: policy.ActionNetwork, Caller: Self(), Sandbox: box.id, Network: letting("a.example")}
	if _, err := s.PutNetwork(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	plan, err := s.defaultPlan(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	plan.Landlock.HandledNet = 0
	if got := under(t, box, plan, ask("a.example")); got != "yes\n" {
		t.Fatalf("before it joined: %q", got)
	}
	if err := box.outlet.join("exec", closedRules); err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]struct{ script, want string }{
		"a name":         {ask("a.example"), "no\n"},
		"tcp":            {"exec 3<>/dev/tcp/198.51.100.7/443 && cat <&3", "reset by peer"},
		"metadata":       {"exec 3<>/dev/tcp/169.254.169.254/80 && cat <&3", "refused"}, // by the kernel: no rule of the sandbox names it
		"udp":            {"exec 3<>/dev/udp/198.51.100.7/443; echo x >&3; echo x >&3", "refused"},
		"relay's port":   {"exec 3<>/dev/tcp/127.0.0.1/15001 && cat <&3", "reset by peer"},
		"another's port": {"exec 3<>/dev/tcp/127.0.0.1/9", "refused"},
	} {
		if got := under(t, box, plan, row.script); !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}
	proof, err := s.prove(t.Context(), box, plan)
	if err != nil || !proof.held() {
		t.Errorf("%+v, %v", proof.Failed, err)
	}
	stop(t, s)
	// The sandbox's rules name that range, and those that the exec has joined don't.
	if !slices.ContainsFunc(readLog(t, c), func(r audit.Record) bool {
		return r.Egress != nil && r.Egress.Destination == "198.51.100.7:443" && r.Egress.Event == "denied" && strings.Contains(r.Egress.Reason, "documentation")
	}) {
		t.Error("no record of the connection that was refused")
	}
}
