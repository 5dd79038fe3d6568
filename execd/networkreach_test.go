package execd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// dials says how a connection to an address begins.
func dials(at string) string {
	return "bash -c '(: <>/dev/tcp/" + strings.ReplaceAll(at, ":", "/") + ") 2>&1' | grep -om1 'refused\\|reset' || echo connected"
}

// TestNetworkReach: what no rule opens the kernel refuses while a program connects, as the rules are now; that is read back, and on record as what the relay
// refuses.
func TestNetworkReach(t *testing.T) {
	c := networked(t, "a.example", documentation, "203.0.113.0/24")
	d := serve(t, c)
	box := d.makeSandbox(t).ID
	for _, change := range []struct {
		rules policy.NetworkSpec
		want  map[string]string // by address; of one that is let through, the relay's word comes later
	}{
		{letting("a.example"), map[string]string{"203.0.113.1:443": "refused", "192.0.2.1:80": "refused", "198.51.100.9:1": "connected"}},
		{letting("203.0.113.0/24"), map[string]string{"203.0.113.1:443": "connected", "203.0.114.0:443": "refused"}},
		{letting(), map[string]string{"203.0.113.1:443": "refused"}},
	} {
		reply := d.network(t, "PUT", box, body(t, change.rules))
		if !reply.Verdict.Held || reply.Proven != reply.Wanted {
			t.Errorf("%+v", reply)
		}
		for at, want := range change.want {
			if got := said(t, d.in(t, box, dials(at), "")); got != want {
				t.Errorf("%v: %s is %s, want %s", change.rules, at, got, want)
			}
		}
	}
	once := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["bash","-c","(: <>/dev/tcp/203.0.113.7/22) 2>&1 | grep -om1 refused"]},"network":`+body(t, letting("a.example"))+`}`)
	if got := said(t, once); got != "refused" {
		t.Errorf("in a sandbox of its own: %s", got)
	}
	onRecord := func(at string) func() bool {
		return func() bool {
			return slices.ContainsFunc(readLog(t, c), func(r audit.Record) bool {
				return r.Type == audit.TypeEgress && r.Egress.Event == "denied" && r.Egress.Destination == at && r.Egress.Rule < 0 && r.Egress.Reason != ""
			})
		}
	}
	if !d.service.host.FenceLog {
		return
	}
	for _, at := range []string{"203.0.113.1:443", "192.0.2.1:80", "203.0.113.7:22"} {
		until(t, at+" on record", onRecord(at))
	}
}

// TestReachDrift: an address that somebody adds to the fence's sets is noticed, and taken out again.
func TestReachDrift(t *testing.T) {
	needRoot(t)
	c := networked(t, "a.example", documentation)
	d := serve(t, c)
	made := d.makeSandbox(t)
	owner := Self()
	owner.Via = "socket"
	box, err := d.service.sandboxes.find(made.ID, owner)
	if err != nil {
		t.Fatal(err)
	}
	d.network(t, "PUT", box.id, body(t, letting("a.example")))
	enter(t, box.PID(), "net", kerneltest.AdmitEverything)
	until(t, "repaired", func() bool {
		return slices.ContainsFunc(readLog(t, c), func(r audit.Record) bool { return r.Type == audit.TypeDrift && hasRow(r.Verdict.Failed, "fence.reach") })
	})
	if reply := d.network(t, "GET", box.id, ""); !reply.Verdict.Held || reply.Proven != reply.Wanted {
		t.Errorf("after the repair: %+v", reply)
	}
	if got := said(t, d.in(t, box.id, dials("203.0.113.1:443"), "")); got != "refused" {
		t.Errorf("after the repair: %s", got)
	}
}

// TestReachIsHeldAgainstTheRules: a fence that was told to let through other than follows from the rules is as it was told, and is found.
func TestReachIsHeldAgainstTheRules(t *testing.T) {
	c := networked(t, "a.example", documentation)
	d := serve(t, c)
	d.service.sandboxes.outlets.changed = func(*sandbox) {}
	id := d.makeSandbox(t).ID
	owner := Self()
	owner.Via = "socket"
	box, err := d.service.sandboxes.find(id, owner)
	if err != nil {
		t.Fatal(err)
	}
	d.network(t, "PUT", id, body(t, letting("a.example")))
	rules, _ := box.outlet.rules()
	if err := box.outlet.fence.Admit(fence.Reach{Ranges: reach(rules).Ranges[1:]}); err != nil {
		t.Fatal(err)
	}
	if reply := d.network(t, "GET", id, ""); reply.Verdict.Held || reply.Proven == reply.Wanted {
		t.Errorf("%+v", reply.Verdict)
	}
	reply := d.in(t, id, "echo ran", "").reply(t)
	if stdout, _ := reply.Output(); reply.Outcome != OutcomeMismatch || len(stdout) > 0 || !strings.Contains(reply.Message, "network.reach") {
		t.Errorf("an exec: %+v", reply)
	}
	if reply := d.network(t, "PUT", id, body(t, letting("a.example"))); !reply.Verdict.Held {
		t.Errorf("set again: %+v", reply)
	}
}

// TestNetworkDatagrams: UDP goes out where the sandbox's network says so, and policy lets it; else it is refused at once, as soon as that changes. That answers
// come is for test/opensandbox to see.
func TestNetworkDatagrams(t *testing.T) {
	// Nobody is at an address of documentation, so that only a refusal is heard: by the second datagram.
	const send = `bash -c 'exec 3<>/dev/udp/198.51.100.9/9; echo x >&3; sleep .1; echo x >&3' 2>&1 | grep -om1 refused || echo sent`
	wanted := letting("a.example")
	wanted.Datagrams = true
	c := networked(t, "a.example", documentation)
	closed := serve(t, c)
	box := closed.makeSandbox(t).ID
	if got := closed.do(t, "PUT", "/v1/network?sandbox="+box, body(t, wanted)); got.status != 403 || !strings.Contains(string(got.body), "network.datagrams") {
		t.Errorf("without policy's leave: %d %s", got.status, got.body)
	}
	if err := closed.stop(); err != nil {
		t.Fatal(err)
	}
	c = networked(t, "a.example", documentation)
	letDatagramsOut(t, c)
	d := serve(t, c)
	box = d.makeSandbox(t).ID
	for _, step := range []struct {
		spec policy.NetworkSpec
		want string
	}{{wanted, "sent"}, {letting("a.example"), "refused"}, {wanted, "sent"}} {
		if reply := d.network(t, "PUT", box, body(t, step.spec)); !reply.Verdict.Held || reply.Proven != reply.Wanted || reply.Network.Datagrams != step.spec.Datagrams {
			t.Errorf("%+v", reply)
		}
		if got := said(t, d.in(t, box, send, "")); got != step.want {
			t.Errorf("datagrams %t: %s, want %s", step.spec.Datagrams, got, step.want)
		}
	}
	tighter := d.in(t, box, "true", `,"network":`+body(t, letting("a.example")))
	mustBe(t, tighter.reply(t), OutcomeOK)
	if reply := d.network(t, "PUT", box, body(t, letting("a.example"))); !reply.Verdict.Held {
		t.Errorf("%+v", reply)
	}
	if got := d.in(t, box, "true", `,"network":`+body(t, wanted)); got.status != 403 {
		t.Errorf("an exec with more than its sandbox: %d %s", got.status, got.body)
	}
}

// letDatagramsOut has the policy let them out, and leaves out the cases that say otherwise.
func letDatagramsOut(t *testing.T, c Config) {
	t.Helper()
	path := filepath.Join(c.PolicyDir, "data.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), `"network":{`, `"network":{"datagrams":true,`, 1)
	if changed == string(data) {
		t.Fatalf("no network in %s", data)
	}
	if err := errors.Join(os.WriteFile(path, []byte(changed), 0o600), os.Remove(filepath.Join(c.PolicyDir, "corpus", "network.json"))); err != nil {
		t.Fatal(err)
	}
}
