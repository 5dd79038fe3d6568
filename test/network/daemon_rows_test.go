package network

import (
	"encoding/json/v2"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// D6, D7, D9: what isn't a target is refused by the name of its field, and changes nothing.
func TestRefusedRules(t *testing.T) {
	w := New(t)
	rules := spec(t, "allow a.example.net 443")
	d := startDaemon(t, w, []policy.NetworkSpec{rules})
	b := d.keep(t, rules)
	for _, target := range []string{
		"*", "*.com", "*.co.uk", "*.github.io", "com*", "a.*.example.net", "*example.net", // D9, and what nobody may think is a wildcard
		"аpple.com", "exаmple.net", "xn--a-ecp.ru-.com", // D6
		"a.example.net\x00", "a%2eexample.net", "a .example.net", "a.example.net ", "a@b.example.net", `a\.example.net`, "a.example.net/x", "https://a.example.net", "", // D7
		"127.1", "0x7f.1", "2130706433", "10.9.0.1/8", "1.2.3.4/33", "[::1]", "fe80::1%lo",
	} {
		status, data := b.ask(t, http.MethodPut, "/v1/network?sandbox="+b.id, policy.NetworkSpec{
			DefaultAction: policy.NetworkDeny, Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: target}},
		})
		var refusal struct {
			Field string `json:"field"`
		}
		if err := json.Unmarshal(data, &refusal); err != nil || status != http.StatusBadRequest || refusal.Field != "network.egress[0].target" {
			t.Errorf("%q: %d %s", target, status, data)
		}
	}
	b.readBack(t)
	if said := b.run(t, clients[0].command...); !regexp.MustCompile(clients[0].says).MatchString(said) {
		t.Errorf("afterwards: %s", said)
	}
}

// D34. A transfer that the rules don't allow any more is cut before its end, as a reset, and that is on record; one that they do goes on.
func TestTighterRulesCutInASandbox(t *testing.T) {
	w := New(t)
	rules, tighter := spec(t, "allow big.example.net, allow a.example.net"), spec(t, "allow a.example.net")
	d := startDaemon(t, w, []policy.NetworkSpec{rules})
	b := d.keep(t, rules)
	ended := map[string]chan string{"big": make(chan string, 1), "a": make(chan string, 1)}
	for name, ends := range ended {
		go func() {
			defer close(ends)
			ends <- b.run(t, shell(`curl -sS --limit-rate 8M --cacert $CA https://`+name+`.example.net/big | wc -c`)...)
		}()
	}
	for deadline := time.Now().Add(30 * time.Second); w.Sent(Big) == 0 || w.Sent(Shared) == 0; time.Sleep(5 * time.Millisecond) { // polls the state that the test is about
		if time.Now().After(deadline) {
			t.Fatal("nothing is transferred")
		}
	}
	b.put(t, tighter)
	if said := <-ended["big"]; !regexp.MustCompile(`curl: \((55|56)\) .*eset by peer`).MatchString(said) {
		t.Errorf("the one that is cut says %s", said)
	}
	if said := <-ended["a"]; !regexp.MustCompile(`^` + strconv.Itoa(BigBytes) + ` exit 0$`).MatchString(said) {
		t.Errorf("the one that goes on says %s", said)
	}
	want := "relay: cut big.example.net: no rule allows it (rule -1)"
	if recorded, right := toldOf(want, func() []string { return b.recorded(t) }); !right {
		t.Errorf("on record is %q, want %q", recorded, want)
	}
}

// D36. The daemon dies while a sandbox lets out: what is under way ends, on both sides, and no host hears of that sandbox again.
func TestDaemonKilled(t *testing.T) {
	w := New(t)
	rules := spec(t, "allow a.example.net")
	d := startDaemon(t, w, []policy.NetworkSpec{rules})
	b := d.keep(t, rules)
	running := b.begin(t, shell(`curl -sS --limit-rate 1M --cacert $CA https://a.example.net/big`)...)
	for deadline := time.Now().Add(30 * time.Second); w.Sent(Shared) == 0; time.Sleep(5 * time.Millisecond) { // polls the state that the test is about
		if time.Now().After(deadline) {
			t.Fatal("nothing is transferred")
		}
	}
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.ended
	<-running
	before := w.AllAccepted()
	for deadline := time.Now().Add(10 * time.Second); w.Open() > 0; time.Sleep(5 * time.Millisecond) { // polls the state that the test is about
		if time.Now().After(deadline) {
			t.Fatalf("%d connections to hosts are still open", w.Open())
		}
	}
	if after := w.AllAccepted(); !maps.Equal(before, after) {
		t.Errorf("hosts took connections after the daemon was killed: %v, %v", before, after)
	}
}

// D35. Where the launcher has no CAP_NET_ADMIN there is no fence, and nothing runs: what is missing is named.
func TestWithoutNetAdmin(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user's sandbox has this capability by its user namespace; see TestSandboxWithoutFence in runner for a host that has none")
	}
	w := New(t)
	rules := spec(t, "allow a.example.net 443")
	bin := programs(t)
	before := w.AllAccepted()
	command := exec.Command("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin",
		filepath.Join(bin, "sandboxd"), "exec", "--json", "--state", t.TempDir(), "--policy", bundleFor(t, rules), "--network-allow", "a.example.net:443",
		"--resolver", w.Resolver.String(), "--stdin", "none", "--", "sh", "-c", "echo ran")
	out, err := command.Output()
	var reply execd.Reply
	if bad := json.Unmarshal(out, &reply); bad != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if stdout, _ := reply.Output(); reply.Outcome != execd.OutcomeInfra || len(stdout) > 0 || !strings.Contains(reply.Message, "network") ||
		!strings.Contains(reply.Message, syscall.EPERM.Error()) {
		t.Errorf("%s", out)
	}
	if after := w.AllAccepted(); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// D37. A program doesn't run with the daemon's ids, and may not ask for them.
func TestDaemonsIDs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has one id; user and PID namespaces are what keeps daemon and programs apart")
	}
	w := New(t)
	rules := spec(t, "allow a.example.net 443")
	d := startDaemon(t, w, []policy.NetworkSpec{rules})
	b := d.keep(t, rules)
	said := b.run(t, "/usr/bin/python3", "-c", `import os; print(*os.getresuid(), *os.getresgid(), *os.getgroups())`)
	ids, _, _ := strings.Cut(said, " exit 0")
	for _, id := range strings.Fields(ids) {
		if number, err := strconv.Atoi(id); err != nil || number == os.Geteuid() || number == os.Getegid() {
			t.Errorf("ids %q", said)
		}
	}
	status, data := b.ask(t, http.MethodPost, "/v1/exec", map[string]any{
		"sandbox": b.id, "command": command{[]string{"true"}, nil}, "securityContext": map[string]any{"runAsUser": os.Geteuid(), "runAsNonRoot": false},
	})
	if status != http.StatusForbidden {
		t.Errorf("%d %s", status, data)
	}
	if slices.ContainsFunc(b.records(t), func(r audit.Record) bool { return r.Type == audit.TypeEgress }) {
		t.Error(fmt.Sprint("something of a network is on record: ", b.recorded(t)))
	}
}

// TestRecordedConnections: where that is asked for, each connection that ends by itself is on record, with the address that was dialled and what was carried.
func TestRecordedConnections(t *testing.T) {
	w := New(t)
	rules := spec(t, "deny c.example.net, allow *.example.net 443")
	d := startDaemon(t, w, []policy.NetworkSpec{rules}, "--record-connections")
	b := d.keep(t, rules)
	if said := b.run(t, clients[0].command...); !regexp.MustCompile(clients[0].says).MatchString(said) {
		t.Fatal(said)
	}
	want := "relay: ended a.example.net: allowed by a rule (rule 1)"
	if recorded, right := toldOf(want, func() []string { return b.recorded(t) }); !right {
		t.Fatalf("on record is %q, want %q", recorded, want)
	}
	for _, record := range b.records(t) {
		if e := record.Egress; e != nil && (e.Dialed != "45.9.1.1:443" || e.SentBytes < 100 || e.ReceivedBytes < 100 || e.DurationSeconds <= 0 || e.Destination != "198.18.0.1:443") {
			t.Errorf("%+v", *e)
		}
	}
}
