package execd

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestFenceDrift: rules of a fence that somebody takes away are put back, once, without a timer; the second time nothing goes out any more, the service
// says that it isn't ready, and all of it is on record.
func TestFenceDrift(t *testing.T) {
	needRoot(t)
	c := networked(t, "a.example", documentation)
	c.OnDrift = DriftDeny
	d := serve(t, c)
	s := d.service
	made := d.makeSandbox(t)
	owner := Self()
	owner.Via = "socket"
	box, err := s.sandboxes.find(made.ID, owner)
	if err != nil {
		t.Fatal(err)
	}
	d.network(t, "PUT", box.id, body(t, letting("a.example")))
	drifts := func() []audit.Record {
		return slices.DeleteFunc(readLog(t, c), func(r audit.Record) bool { return r.Type != audit.TypeDrift })
	}
	enter(t, box.PID(), "net", kerneltest.FlushRules)
	until(t, "repaired", func() bool { return len(drifts()) == 1 })
	if reply := d.network(t, "GET", box.id, ""); !reply.Verdict.Held || reply.Proven != reply.Wanted || reply.Network.DenyAll() {
		t.Errorf("after the repair: %+v", reply)
	}
	if len(s.troubles()) != 0 {
		t.Errorf("after the repair: %v", s.troubles())
	}
	mustBe(t, d.in(t, box.id, "true", "").reply(t), OutcomeOK)

	enter(t, box.PID(), "net", kerneltest.FlushRules)
	until(t, "found", func() bool { return box.drift.Load() != nil })
	until(t, "on record", func() bool { return len(drifts()) == 2 })
	if set := box.outlet.judge(); set.Resolvable("a.example").Allow || !isShut(box) {
		t.Error("something is let out")
	}
	if got := d.do(t, "GET", "/readyz", ""); got.status != 503 || !strings.Contains(string(got.body), "fence.") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := d.in(t, box.id, "true", ""); got.status != 409 {
		t.Errorf("an exec: %d %s", got.status, got.body)
	}
	if got := d.do(t, "PUT", "/v1/network?sandbox="+box.id, body(t, letting("a.example"))); got.status == 200 {
		t.Errorf("a change: %s", got.body)
	}
	if got := d.do(t, "DELETE", "/v1/sandboxes/"+box.id, ""); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := d.do(t, "GET", "/readyz", ""); got.status != 200 {
		t.Errorf("after it is deleted: %d %s", got.status, got.body)
	}
	records := drifts()
	if !strings.HasPrefix(records[0].Message, "repaired") || !strings.HasPrefix(records[1].Message, DriftDeny) || records[1].Verdict == nil {
		t.Errorf("%+v", records)
	}
}
