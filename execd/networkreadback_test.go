package execd

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestNetworkIsReadBack: a fence that isn't as planned when something is to be let out is found by whoever asks, without anybody who watches: an exec isn't
// released into it, and a change of the network shuts it off.
func TestNetworkIsReadBack(t *testing.T) {
	needRoot(t)
	c := networked(t, "a.example", documentation)
	d := serve(t, c)
	d.service.sandboxes.outlets.changed = func(*sandbox) {} // nobody watches
	id := d.makeSandbox(t).ID
	owner := Self()
	owner.Via = "socket"
	box, err := d.service.sandboxes.find(id, owner)
	if err != nil {
		t.Fatal(err)
	}
	d.network(t, "PUT", id, body(t, letting("a.example")))
	enter(t, box.PID(), "net", kerneltest.FlushRules)

	reply := d.in(t, id, "echo ran", "").reply(t)
	if stdout, _ := reply.Output(); reply.Outcome != OutcomeMismatch || len(stdout) > 0 || !strings.Contains(reply.Message, "read-back of the network: fence.ruleset") {
		t.Errorf("an exec: %+v", reply)
	}
	if isShut(box) {
		t.Error("shut off by an exec")
	}
	if got := d.do(t, "PUT", "/v1/network?sandbox="+id, body(t, letting("a.example"))); got.status != 500 || !strings.Contains(string(got.body), "fence.ruleset") {
		t.Errorf("a change: %d %s", got.status, got.body)
	}
	if set := box.outlet.judge(); set.Resolvable("a.example").Allow || !isShut(box) {
		t.Error("something is let out after a change that doesn't hold")
	}
	records := slices.DeleteFunc(readLog(t, c), func(r audit.Record) bool { return r.Type != audit.TypeMismatch || r.Sandbox != id })
	if len(records) != 2 || !strings.Contains(records[1].Message, "fence.ruleset") {
		t.Errorf("on record: %+v", records)
	}
}
