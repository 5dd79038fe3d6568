package mutation

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// TestEveryPartOfTheFenceIsMissed: a sandbox whose fence lacks one request, one rule or one socket option never runs anything.
func TestEveryPartOfTheFenceIsMissed(t *testing.T) {
	parts := fenceParts(t)
	dir := t.TempDir()
	build(t, dir)
	if len(parts) < 20 {
		t.Fatalf("%d parts; a fence this small holds nothing: %v", len(parts), parts)
	}
	for _, part := range parts {
		t.Run(part, func(t *testing.T) {
			got := execute(t, dir, part)
			if got.Outcome != "infra" && got.Outcome != "mismatch" || got.Stdout != "" {
				t.Errorf("outcome %q, stdout %q: want a sandbox that isn't made: %s", got.Outcome, got.Stdout, got.Message)
			}
			if !strings.Contains(got.Message, "fence") {
				t.Errorf("it doesn't say that it is the fence: %s", got.Message)
			}
		})
	}
}

// fenceParts are what the build with the tag sabotage can leave out of this host's fence.
func fenceParts(t *testing.T) []string {
	t.Helper()
	host, err := enforcer.ProbeHost(enforcer.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	worker, child := enforcer.Identity{UID: 200000, GID: 200000}, enforcer.Identity{UID: 200001, GID: 200001}
	if os.Geteuid() != 0 {
		worker = enforcer.Identity{UID: 1000, GID: 1000}
		child = worker
	}
	box, err := enforcer.BuildSandbox(host, enforcer.SandboxSpec{Worker: worker, Child: child, TmpBytes: 1 << 20, WorkBytes: 1 << 20, Hostname: "sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	if box.Network.Variant == "" {
		t.Skip("no fence: ", host.FenceWhy)
	}
	var parts []string
	for i := range box.Network.Route {
		parts = append(parts, fmt.Sprint("fence.route.", i))
	}
	// Begin and end of the transaction are not parts of the fence.
	messages := 0
	for rest := box.Network.Netfilter; len(rest) >= 4; messages++ {
		rest = rest[int(binary.NativeEndian.Uint32(rest)+3)&^3:]
	}
	for i := 1; i < messages-1; i++ {
		parts = append(parts, fmt.Sprint("fence.rule.", i))
	}
	for _, socket := range box.Network.Sockets {
		for i, option := range socket.Options {
			if option == (fence.Option{Level: unix.SOL_IPV6, Name: unix.IPV6_V6ONLY, Value: 0}) {
				continue // as it is without it, unless this machine has net.ipv6.bindv6only
			}
			parts = append(parts, fmt.Sprint("fence.option.", socket.Name, ".", i))
		}
	}
	return parts
}
