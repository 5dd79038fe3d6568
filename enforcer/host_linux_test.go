package enforcer

import (
	"encoding/json/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/caps"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
	"golang.org/x/sys/unix"
)

func probeHost(t testing.TB) Host {
	t.Helper()
	host, err := ProbeHost(HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

func TestProbeHostSaysWhatTheKernelSays(t *testing.T) {
	host := probeHost(t)
	if host.Kernel != kerneltest.Release() {
		t.Errorf("kernel %q", host.Kernel)
	}
	if host.UID != os.Geteuid() || host.GID != os.Getegid() {
		t.Errorf("ids %d %d", host.UID, host.GID)
	}
	for capability := range host.LastCapability + 1 {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			t.Fatal(err)
		}
		if want := data[capability/32].Effective&(1<<(capability%32)) != 0; want != caps.Has(host.Capabilities, capability) {
			t.Errorf("%s: %v", caps.Name(capability), !want)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || host.RLimits["nofile"] != int64(limit.Max) {
		t.Errorf("nofile %d, the kernel says %d (%v)", host.RLimits["nofile"], limit.Max, err)
	}
	for _, name := range sandboxNamespaces {
		if host.Namespaces[name] == 0 {
			t.Errorf("no namespace %s", name)
		}
	}
	if kerneltest.Kernel("6.5") != host.PassPidFD {
		t.Errorf("SO_PASSPIDFD is %v on %s", host.PassPidFD, host.Kernel)
	}
	if kerneltest.Kernel("6.13") != host.PidFDInfo {
		t.Errorf("PIDFD_GET_INFO is %v on %s", host.PidFDInfo, host.Kernel)
	}
}

func TestProbeHostTriesUserNamespaces(t *testing.T) {
	kerneltest.Require(t, kerneltest.UserNamespaces)
	if err := tryUserNamespace(); err != nil {
		t.Error(err)
	}
}

// Plain data: what is written down is what is read back, so that a Host can be recorded.
func TestHostIsPlainData(t *testing.T) {
	host := probeHost(t)
	data, err := json.Marshal(host, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	var back Host
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back, json.Deterministic(true))
	if err != nil || string(again) != string(data) {
		t.Errorf("%v\n%s\n%s", err, data, again)
	}
}

func TestProbeHostLeavesNoProcessAndNoDescriptor(t *testing.T) {
	probeHost(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := count()
	for range 3 {
		probeHost(t)
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); err != unix.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

func TestTier(t *testing.T) {
	for _, test := range []struct {
		name string
		host Host
		want policy.Tier
	}{
		{"root", Host{Capabilities: caps.All(40)}, policy.TierFull},
		{"root without CAP_SYS_RESOURCE", Host{Capabilities: caps.All(40) &^ (1 << 24)}, policy.TierFull},
		{"root of a container", Host{Capabilities: 0xa80425fb, UserNamespaces: true}, policy.TierRestricted},
		{"an ordinary user", Host{UID: 1000, UserNamespaces: true}, policy.TierFull},
		{"an ordinary user without namespaces", Host{UID: 1000}, policy.TierRestricted},
		{"an ordinary user with capabilities", Host{UID: 1000, Capabilities: caps.All(40)}, policy.TierRestricted},
	} {
		if got := test.host.Tier(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestDoctorNamesEverything(t *testing.T) {
	full := Host{
		Kernel: "6.18.0", UID: 0, Capabilities: caps.All(40), LastCapability: 40, InitialUserNamespace: true, UserNamespaces: true, LandlockABI: 7,
		SeccompActions: []string{"kill_process", "errno"}, SeccompReadback: true, SeccompListener: true, Terminals: true, PassPidFD: true, PidFDInfo: true, Yama: -1, IPv6: true, Fence: true, FenceLog: true, FenceDatagrams: true,
	}
	full.Cgroup.Layout, full.Cgroup.Base, full.Cgroup.Kill, full.Cgroup.Freeze = "v2", "/sys/fs/cgroup", true, true
	full.Cgroup.Controllers = []string{"cpu", "memory", "pids"}
	for _, m := range full.Doctor() {
		if !m.Have {
			t.Errorf("%s isn't there on a host that has everything: %s", m.Name, m.Detail)
		}
	}
	bare := Host{Kernel: "5.15.0", UID: 1000, Yama: 1, SuidDumpable: 1}
	bare.Cgroup.Why, bare.FenceWhy = "permission denied", "no such file or directory"
	var missing []string
	for _, m := range bare.Doctor() {
		if m.Have {
			continue
		}
		missing = append(missing, m.Name)
		if m.HowToGet == "" {
			t.Errorf("%s is missing, and nobody learns how to get it", m.Name)
		}
	}
	for _, name := range []string{"tier", "user namespaces", "landlock", "landlock.scope", "seccomp", "seccomp.readback", "cgroup", "cgroup.memory", "cgroup.cpu", "cgroup.pids", "cgroup.usage", "kill.tree", "pidfd.pass", "network.fence"} {
		if !slices.Contains(missing, name) {
			t.Errorf("%s isn't missing among %s", name, strings.Join(missing, ", "))
		}
	}
}

func BenchmarkProbeHost(b *testing.B) {
	for b.Loop() {
		if _, err := ProbeHost(HostConfig{}); err != nil {
			b.Fatal(err)
		}
	}
}
