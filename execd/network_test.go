package execd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// said is what an exec has printed.
func said(t testing.TB, got answer) string {
	t.Helper()
	reply := got.reply(t)
	mustBe(t, reply, OutcomeOK)
	stdout, _ := reply.Output()
	return strings.TrimSpace(string(stdout))
}

// TestNetworkWalk: what is allowed is in force and proven, what is denied changes nothing, and both are on record.
func TestNetworkWalk(t *testing.T) {
	ask := resolves(t)
	c := networked(t, "a.example", "b.example", documentation)
	d := serve(t, c)
	box := d.makeSandbox(t).ID
	if reply := d.network(t, "GET", box, ""); reply.Mode != networkRelay || reply.Wanted.Generation != 0 || reply.Proven != reply.Wanted || !reply.Network.DenyAll() {
		t.Errorf("as it was made: %+v", reply)
	}
	if got := said(t, d.in(t, box, ask("a.example"), "")); got != "no" {
		t.Errorf("before anything was let out a name resolves: %s", got)
	}
	changed := d.network(t, "PUT", box, body(t, letting("a.example")))
	if changed.Wanted.Generation != 1 || changed.Proven != changed.Wanted || !changed.Verdict.Held || changed.Verdict.Evidence.Kernel < 30 ||
		changed.Decision == nil || changed.AuditSequence == 0 || changed.Network.DenyAll() {
		t.Errorf("%+v", changed)
	}
	for name, want := range map[string]string{"a.example": "yes", "b.example": "no"} {
		if got := said(t, d.in(t, box, ask(name), "")); got != want {
			t.Errorf("%s resolves: %s, want %s", name, got, want)
		}
	}
	for name, row := range map[string]struct {
		body   string
		status int
	}{
		"not listed":    {body(t, letting("c.example")), 403},
		"all":           {`{"defaultAction":"allow"}`, 403},
		"unknown word":  {`{"defaultActoin":"deny"}`, 400},
		"public suffix": {`{"defaultAction":"deny","egress":[{"action":"allow","target":"*.co.uk"}]}`, 400},
	} {
		if got := d.do(t, "PUT", "/v1/network?sandbox="+box, row.body); got.status != row.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := d.do(t, "PUT", "/v1/network?sandbox=0123", `{}`); got.status != 404 {
		t.Errorf("no such sandbox: %d %s", got.status, got.body)
	}
	if reply := d.network(t, "GET", box, ""); reply.Wanted != changed.Wanted || reply.Proven != changed.Proven || body(t, reply.Network) != body(t, changed.Network) {
		t.Errorf("after refusals: %+v", reply)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	networkRecords(t, c, box)
}

// networkRecords looks the change, the refusals and what a program was refused up in the log.
func networkRecords(t *testing.T, c Config, box string) {
	t.Helper()
	var changes, refusals int
	var denied []audit.Egress
	for _, r := range readLog(t, c) {
		switch {
		case r.Type == audit.TypeNetwork:
			if changes++; r.Sandbox != box || r.Verdict == nil || r.Decision == nil || r.Caller == nil {
				t.Errorf("%+v", r)
			}
		case r.Type == audit.TypeDecision && r.Sandbox == box:
			refusals++
		case r.Type == audit.TypeEgress:
			if r.Sandbox != box || r.Exec == "" {
				t.Errorf("%+v", r)
			}
			denied = append(denied, *r.Egress)
		}
	}
	if changes != 1 || refusals != 2 {
		t.Errorf("%d changes and %d refusals are on record", changes, refusals)
	}
	if !slices.ContainsFunc(denied, func(e audit.Egress) bool {
		return e.Event == "denied" && e.Name == "b.example" && e.Query == "A" && e.Rule == -1 && e.Reason != ""
	}) {
		t.Errorf("no record of b.example in %+v", denied)
	}
}

// TestNetworkOfAnExec: in a kept sandbox an exec may have less than the sandbox, for all while it runs, and never more.
func TestNetworkOfAnExec(t *testing.T) {
	ask := resolves(t)
	d := serve(t, networked(t, "a.example", "b.example", documentation))
	box := d.makeSandbox(t).ID
	d.network(t, "PUT", box, body(t, letting("a.example")))
	wider := d.in(t, box, "true", `,"network":`+body(t, letting("a.example", "b.example")))
	if reply := wider.reply(t); wider.status != 403 || reply.Outcome != OutcomeDenied || len(reply.Reasons) != 1 || reply.Reasons[0].Field != "network" {
		t.Errorf("wider: %d %s", wider.status, wider.body)
	}
	if got := said(t, d.in(t, box, ask("a.example"), `,"network":{"defaultAction":"deny"}`)); got != "no" {
		t.Errorf("an exec that may not asks for a name: %s", got)
	}
	closed := shell("sleep 60")
	closed.Sandbox, closed.Caller.Via, closed.Network = box, "socket", policy.NetworkSpec{DefaultAction: policy.NetworkDeny}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	w, replies := runsWith(t, ctx, d.service, closed)
	if reply := d.network(t, "GET", box, ""); len(reply.TightenedBy) != 1 || reply.TightenedBy[0] != w.id || reply.Network.DenyAll() {
		t.Errorf("while it runs: %+v", reply)
	}
	if got := said(t, d.in(t, box, ask("a.example"), "")); got != "no" {
		t.Errorf("another exec while it runs: %s", got)
	}
	end()
	mustBe(t, <-replies, OutcomeCancelled)
	if got := said(t, d.in(t, box, ask("a.example"), "")); got != "yes" {
		t.Errorf("after it has ended: %s", got)
	}
	if reply := d.network(t, "GET", box, ""); len(reply.TightenedBy) != 0 {
		t.Errorf("after it has ended: %+v", reply)
	}
}

// TestNetworkFollowsPolicy: what policy doesn't let out any more isn't let out any more.
func TestNetworkFollowsPolicy(t *testing.T) {
	c := networked(t, "a.example", documentation)
	d := serve(t, c)
	box := d.makeSandbox(t).ID
	d.network(t, "PUT", box, body(t, letting("a.example")))
	listTargets(t, c, "b.example")
	// The bundle's own tests run before it is in force, which takes its time on a busy machine.
	for deadline := time.Now().Add(time.Minute); !d.network(t, "GET", box, "").Network.DenyAll(); time.Sleep(5 * time.Millisecond) { // polls the state that the test is about
		if time.Now().After(deadline) {
			t.Fatal("still let out")
		}
	}
	if reply := d.network(t, "GET", box, ""); reply.Wanted.Generation != 2 || reply.Proven != reply.Wanted {
		t.Errorf("%+v", reply)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	records := slices.DeleteFunc(readLog(t, c), func(r audit.Record) bool { return r.Type != audit.TypeNetwork })
	if len(records) != 2 || !strings.Contains(records[1].Message, "nothing is let out any more") {
		t.Errorf("%+v", records)
	}
}

// TestNetworkWithoutALog: a change that can't be written down lets nothing out, and shuts what was open.
func TestNetworkWithoutALog(t *testing.T) {
	c := networked(t, "a.example", documentation)
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) // says that the stop couldn't be recorded
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	change := policy.Request{Action: policy.ActionNetwork, Caller: Self(), Sandbox: box.id, Network: letting("a.example")}
	if _, err := s.PutNetwork(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if !box.outlet.judge().Resolvable("a.example").Allow {
		t.Error("not let out")
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	if reply, err := s.PutNetwork(t.Context(), change); err == nil {
		t.Errorf("%+v", reply)
	}
	if set := box.outlet.judge(); set.Resolvable("a.example").Allow || !isShut(box) {
		t.Error("still let out")
	}
}
