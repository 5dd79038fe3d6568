package runner

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// openWorld makes of a sandbox's namespace what the machine's own would be: all addresses answer, on the ports that acts try, and nothing stands between.
// A fence without its rules is that.
func openWorld(t *testing.T, s *Sandbox) {
	t.Helper()
	freely := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) (err error) {
		if network != "udp6" { // an IPv4 address that is local by a route can be bound as it is
			return nil
		}
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1) }), err)
	}}
	inside(t, s, func() error {
		if err := kerneltest.FlushRules(); err != nil {
			return err
		}
		for _, port := range []int{53, 80, 443, 853} {
			listener, err := net.Listen("tcp", "[::]:"+strconv.Itoa(port))
			if errors.Is(err, unix.EADDRINUSE) { // the fence's own
				continue
			}
			if err != nil {
				return err
			}
			t.Cleanup(func() { listener.Close() })
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					conn.Write([]byte("an answer, longer than what is asked of it"))
					conn.Close()
				}
			}()
		}
		for _, address := range []string{"192.0.2.1:9", "[2001:db8::1]:9", "169.254.169.254:443", "192.0.2.1:53"} { // answers come from where it was asked
			socket, err := freely.ListenPacket(t.Context(), "udp", address)
			if err != nil {
				return err
			}
			t.Cleanup(func() { socket.Close() })
			go func() {
				buffer := make([]byte, 512)
				for {
					n, from, err := socket.ReadFrom(buffer)
					if err != nil {
						return
					}
					socket.WriteTo(buffer[:n], from)
				}
			}()
		}
		return nil
	}, "net")
}

// restricted is a plan as one for a place without namespaces, which lets the proxy's port be connected to; 0: nothing.
func restricted(t *testing.T, s *Sandbox, proxy uint16) enforcer.Plan {
	t.Helper()
	sandbox := s.Plan()
	sandbox.Namespaces = slices.DeleteFunc(slices.Clone(sandbox.Namespaces), func(name string) bool { return name == "net" })
	sandbox.ProxyPort = proxy
	yes := true
	d := policy.Decision{Allow: true}
	d.Effective.SecurityContext = policy.SecurityContext{ReadOnlyRootFilesystem: &yes}.Defaulted()
	d.Effective.Limits = policy.Limits{}.Defaulted()
	d.Effective.Network = policy.NetworkSpec{}.Defaulted()
	if proxy != 0 {
		d.Effective.Network.Egress = []policy.EgressRule{{Action: policy.NetworkAllow, Target: "example.org"}}
		d.Accept = []string{"network.destination"}
	}
	plan, err := enforcer.Build(d, s.config.Host, sandbox, enforcer.Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	return kill(s, plan)
}

// TestRestrictedNetwork: where there is no namespace to fence, the filter and Landlock together hold what neither holds alone. Each way past Landlock is
// shown to be one, in a world that answers.
func TestRestrictedNetwork(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	config := testConfig(t)
	if !config.Host.Fence || config.Host.LandlockABI < 4 {
		t.Skip("the world that answers takes a fence, and the proxy Landlock's rules for TCP")
	}
	const port = 80 // as if the relay were there
	s := startSandbox(t, config)
	openWorld(t, s)
	proxied, filtered := restricted(t, s, port), restricted(t, s, 0)
	if proxied.Network != enforcer.NetworkProxy || len(proxied.Degraded) == 0 || filtered.Network != enforcer.NetworkFilter {
		t.Fatalf("%s, degraded %q; %s", proxied.Network, proxied.Degraded, filtered.Network)
	}
	landlocked, bare := proxied, proxied
	landlocked.Seccomp, landlocked.Readback = seccomp.Filter{}, false
	bare.Seccomp, bare.Readback, bare.Landlock = seccomp.Filter{}, false, landlock.Ruleset{}
	const through = "let through"
	noFastOpen := unix.ErrnoName(unix.EOPNOTSUPP)
	want := map[string][3]string{ // with nothing, with Landlock alone, with both
		"metadata":               {through, through, through}, // another host on the relay's port: the lack that policy accepted
		"metadata6":              {through, through, through},
		"tcp":                    {through, "EACCES", "EACCES"},
		"tcp6":                   {through, "EACCES", "EACCES"},
		"DNS over TLS":           {through, "EACCES", "EACCES"},
		"fast open":              {through, through, noFastOpen},
		"fast open6":             {through, through, noFastOpen},
		"fast open, sendmsg":     {through, through, noFastOpen},
		"fast open, connect":     {through, "EACCES", "EACCES"},
		"mptcp":                  {through, through, "EAFNOSUPPORT"},
		"udp":                    {through, through, "EAFNOSUPPORT"},
		"udp6":                   {through, through, "EAFNOSUPPORT"},
		"QUIC":                   {through, through, "EAFNOSUPPORT"},
		"another resolver":       {through, through, "EAFNOSUPPORT"},
		"another's address":      {through, through, "EAFNOSUPPORT"},
		"another's address, tcp": {through, "EACCES", "EACCES"},
		"listen":                 {through, through, "EACCES"},
		"netlink":                {through, through, "EAFNOSUPPORT"},
	}
	var names []string
	for act := range want {
		names = append(names, "network."+act)
	}
	for i, plan := range []enforcer.Plan{bare, landlocked, proxied} {
		got, exit := tried(t, s, plan, names)
		if exit.Status.ExitStatus() != 0 {
			t.Errorf("%v", exit.Status)
		}
		for act, answers := range want {
			if got["network."+act] != answers[i] {
				t.Errorf("with %s, %s: %s, want %s", [...]string{"nothing", "Landlock alone", "both"}[i], act, got["network."+act], answers[i])
			}
		}
	}
	// What the plans' own acts say, the system calls among them: io_uring, vsock, packet sockets.
	for name, plan := range map[string]enforcer.Plan{"proxy": proxied, "filter": filtered} {
		acts := enforcer.Acts(plan, config.Host.Arch)
		got, _ := tried(t, s, plan, namesOf(acts))
		for _, row := range enforcer.CheckActs(acts, got) {
			alone := slices.ContainsFunc(acts, func(a enforcer.Act) bool { return a.Name == row.Control && a.Alone })
			if !row.Held && !alone {
				t.Errorf("%s: %s: %s, want %s", name, row.Control, row.Got, row.Want)
			}
		}
	}
}
