package place

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// TestNet: with NET_ADMIN in the daemon, and in nobody else, the namespace that all share is fenced by uid.
func TestNet(t *testing.T) {
	p := newPod(t)
	p.world()
	p.neighbour()
	p.serve("+net_admin", "--policy", p.opens(), "--drift-interval", "1h")
	defer p.say()
	// Before any launcher is there.
	if got := p.reaches(t, runnerUID); !strings.Contains(got, "ECONNREFUSED") {
		t.Errorf("before the first launcher, as the runner: %s", got)
	}
	if got := p.reaches(t, daemonUID); got != "HTTP/1.0" {
		t.Errorf("as the daemon: %s", got)
	}
	if got := p.reaches(t, otherUID); strings.Contains(got, "HTTP") {
		t.Errorf("as somebody who isn't named: %s", got)
	}
	p.connect()
	p.isReady()
	var status execd.Status
	p.decode(http.MethodGet, "/v1/status", "", &status)
	if status.Host.Tier != policy.TierNet {
		t.Errorf("tier %s: %+v", status.Host.Tier, status.Host.Mechanisms)
	}
	p.attempted(nothing)
	if status, body := p.letOut(t, letsOut); status != http.StatusOK || !strings.Contains(body, `"held":true`) {
		t.Fatalf("%d %s", status, body)
	}
	got := p.exec("python3", "-c", fetch, "http://192.0.2.1/")
	if got.Stdout != "the world\n" || !got.Verdict.Held || got.Verdict.Tier != policy.TierNet || !strings.Contains(strings.Join(got.Verdict.Degraded, "\n"), "fence.cgroup-bpf: ") {
		t.Errorf("%+v", got)
	}
	p.attempted(map[string]string{
		"another port": "ECONNRESET or END", "mapped": "ECONNRESET or ENETUNREACH", "fast open": "OPEN or ECONNREFUSED", "fast open by sendmsg": "OPEN or ECONNREFUSED", "mptcp": "ECONNRESET or EPROTONOSUPPORT",
		"udp": "EPERM", "quic": "EPERM", "raw": "EPERM", "packet": "EPERM or EAFNOSUPPORT", "vsock": "EAFNOSUPPORT", "io_uring": "ENOSYS", "netlink": "OPEN",
		"bind": "OPEN", "listen": "OPEN", "the relay's own port": "EADDRINUSE",
		"another container's port":            "OPEN",                         // whoever listens on the loopback that a pod shares is open to all of it
		"another container's abstract socket": "EPERM", "a device": "TIMEOUT", // dropped where the device is known: nobody can answer there
		"the relay's port of another host": "ECONNRESET", "socketpair": "OPEN",
	})
	await(t, "a record of what was refused", func() bool { return p.recorded("egress", "192.0.2.1:9") })
	p.verifies()
}

// reaches is how a connection to the world ends for a user who has nothing to do with us.
func (p *pod) reaches(t *testing.T, uid int) string {
	t.Helper()
	argv := p.inside(as(uid, "", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "python3", "-c", strings.Replace(attempts, "W, 9)),", "W, 80)),", 1), "another port")...)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, answer, _ := strings.Cut(strings.TrimSpace(string(out)), " = ")
	return answer
}

// TestNetEnds: the fence outlives the daemon, the next daemon makes it its own, and who changes what it stands on ends the sandbox.
func TestNetEnds(t *testing.T) {
	p := newPod(t)
	p.world()
	p.start("+net_admin", "--policy", p.opens(), "--drift-interval", "1h")
	defer p.say()
	p.daemon.kill()
	<-p.launcher.ended
	isEmpty(t)
	if got := p.reaches(t, runnerUID); !strings.Contains(got, "ECONNREFUSED") {
		t.Errorf("with the daemon dead: %s", got)
	}
	if err := os.RemoveAll(p.path("state/policy")); err != nil {
		t.Fatal(err)
	}
	p.start("+net_admin", "--policy", p.opens(), "--drift-interval", "1h")
	if status, body := p.letOut(t, letsOut); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if got := p.ran("python3", "-c", fetch, "http://192.0.2.1/"); got != "the world\n" {
		t.Errorf("after a restart: %s", got)
	}
	// A rule of policy routing can send the runner's packets round; nobody of ours made it, and it isn't ours to take away.
	p.ip("rule", "add", "from", "198.51.100.1", "table", "100")
	<-p.launcher.ended
	isEmpty(t)
	if !p.recorded("drift", "fence.policy routing") {
		t.Error("the change isn't in the log")
	}
	p.connect()
	await(t, "an unfit place", func() bool { return p.recorded("mismatch", "fence.policy routing") })
	p.ip("rule", "del", "from", "198.51.100.1", "table", "100")
	p.connect()
	p.isReady()
	p.ran("true")
}
