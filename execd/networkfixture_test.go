package execd

import (
	"encoding/json/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

// networked is a daemon whose policy lets these targets out, on all ports, and whose names are a test's: every one of them has an address of
// documentation, which nobody dials.
func networked(t testing.TB, targets ...string) Config {
	t.Helper()
	if host := probedHost(t); !host.Fence {
		t.Skip(host.FenceWhy)
	}
	c := testConfig(t)
	c.DriftInterval = 0 // what watches the fence is what notices
	c.Resolvers, c.ResolvConf = []netip.AddrPort{nameServer(t)}, ""
	c.PolicyDir = filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(c.PolicyDir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	listTargets(t, c, targets...)
	return c
}

// listTargets has the policy let these out, and no others.
func listTargets(t testing.TB, c Config, targets ...string) {
	t.Helper()
	path := filepath.Join(c.PolicyDir, "data.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	listed := []any{}
	for _, target := range targets {
		listed = append(listed, map[string]any{"target": target, "ports": []any{}})
	}
	all["settings"].(map[string]any)["network"] = map[string]any{"targets": listed}
	if data, err = json.Marshal(all, json.Deterministic(true)); err == nil {
		if err = os.WriteFile(path+".new", data, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// nameServer answers for every name, on the host's loopback.
func nameServer(t testing.TB) netip.AddrPort {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, asked *dns.Msg) {
		answer := new(dns.Msg).SetReply(asked)
		if asked.Question[0].Qtype == dns.TypeA {
			answer.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: asked.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(198, 51, 100, 7),
			}}
		}
		_ = w.WriteMsg(answer) // who doesn't hear it asks again
	})}
	served := make(chan error, 1)
	go func() { served <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		socket.Close()
		<-served
	})
	return socket.LocalAddr().(*net.UDPAddr).AddrPort()
}

// letting is a network spec that lets targets out: with them the addresses that the test's names have, which no rule opens that doesn't name them.
func letting(targets ...string) policy.NetworkSpec {
	spec := policy.NetworkSpec{DefaultAction: policy.NetworkDeny}
	for _, target := range append(targets, documentation) {
		spec.Egress = append(spec.Egress, policy.EgressRule{Action: policy.NetworkAllow, Target: target})
	}
	return spec
}

const documentation = "198.51.100.0/24"

// body is a spec as a request has it.
func body(t testing.TB, spec policy.NetworkSpec) string {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), `,"ports":[]`, "")
}

// resolves is a script that says whether a name resolves, and a call of the daemon that runs it in a sandbox.
func resolves(t testing.TB) func(name string) string {
	t.Helper()
	if _, err := exec.LookPath("getent"); err != nil {
		t.Skip("no getent to ask for names with")
	}
	return func(name string) string { return "getent ahostsv4 " + name + " >/dev/null && echo yes || echo no" }
}

// in runs a script in a kept sandbox, with members of the request besides.
func (d *daemon) in(t testing.TB, box, script, members string) answer {
	t.Helper()
	argv, err := json.Marshal([]string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	return d.do(t, "POST", "/v1/exec", `{"sandbox":"`+box+`","command":{"argv":`+string(argv)+`}`+members+`}`)
}

func (d *daemon) network(t testing.TB, method, box, body string) NetworkReply {
	t.Helper()
	got := d.do(t, method, "/v1/network?sandbox="+box, body)
	var reply NetworkReply
	if err := json.Unmarshal(got.body, &reply, json.RejectUnknownMembers(true)); err != nil || got.status != 200 {
		t.Fatalf("%s: %d %s: %v", method, got.status, got.body, err)
	}
	return reply
}

// isShut says whether a sandbox's network was shut off.
func isShut(box *sandbox) bool {
	box.outlet.mu.Lock()
	defer box.outlet.mu.Unlock()
	return box.outlet.shut
}
