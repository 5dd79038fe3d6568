package enforcer

import (
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/policy"
)

// Host is what this kernel and this place can do, asked once at start by trying (ProbeHost); plain data, so that Build is pure.
type Host struct {
	// Kernel is uname's release, Arch is GOARCH, BootID is /proc/sys/kernel/random/boot_id.
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	BootID string `json:"bootId"`
	// UID and GID are the daemon's effective ids; Capabilities its effective set, bit n for capability n.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Groups are its supplementary groups. A user namespace with one id can't drop them.
	Groups       []int  `json:"groups"`
	Capabilities uint64 `json:"capabilities"`
	// LastCapability is /proc/sys/kernel/cap_last_cap.
	LastCapability int `json:"lastCapability"`
	// InitialUserNamespace: the daemon lives in the user namespace of the machine.
	InitialUserNamespace bool `json:"initialUserNamespace"`
	// UserNamespaces: an ordinary user may make one (tried).
	UserNamespaces bool `json:"userNamespaces"`
	// LandlockABI is landlock_create_ruleset(…VERSION), 0 where Landlock is absent.
	LandlockABI int `json:"landlockAbi"`
	// SeccompActions is /proc/sys/kernel/seccomp/actions_avail.
	SeccompActions []string `json:"seccompActions"`
	// SeccompReadback: PTRACE_SECCOMP_GET_FILTER gave back the bytes of a filter (tried on a throw-away child).
	SeccompReadback bool `json:"seccompReadback"`
	// SeccompListener: a filter may have a listener whose answers are waited for killably (5.19; asked, not installed).
	SeccompListener bool `json:"seccompListener"`
	// Terminals: an instance of devpts for one terminal can be made (tried).
	Terminals bool `json:"terminals"`
	// PassPidFD: SO_PASSPIDFD (6.5). PidFDInfo: PIDFD_GET_INFO (6.13).
	PassPidFD bool `json:"passPidfd"`
	PidFDInfo bool `json:"pidfdInfo"`
	// IPv6: sockets of that family can be made.
	IPv6 bool `json:"ipv6"`
	// Fence: a network namespace can be fenced with nf_tables and tproxy, and reads back as it was made (tried in a throw-away one). FenceWhy is why
	// not.
	Fence    bool   `json:"fence"`
	FenceWhy string `json:"fenceWhy,omitempty"`
	// FenceLog: the kernel tells of connections that a fence refuses by itself; FenceLogWhy is why not.
	FenceLog    bool   `json:"fenceLog"`
	FenceLogWhy string `json:"fenceLogWhy,omitempty"`
	// FenceDatagrams: a fence can let datagrams out too, which takes a raw socket.
	FenceDatagrams bool `json:"fenceDatagrams"`
	// Attached: the launcher isn't ours to start, and this daemon makes no namespaces ([HostConfig].Attached). Opaque: nor may it trace a process of
	// another uid, so that most links in /proc are closed to it. PodFence: the fence by uid was made and read back in the daemon's own network namespace;
	// PodFenceWhy is why not.
	Attached    bool   `json:"attached,omitzero"`
	Opaque      bool   `json:"opaque,omitzero"`
	PodFence    bool   `json:"podFence,omitzero"`
	PodFenceWhy string `json:"podFenceWhy,omitempty"`
	// SuidDumpable is fs.suid_dumpable; Yama is kernel.yama.ptrace_scope, -1 where Yama is absent.
	SuidDumpable int `json:"suidDumpable"`
	Yama         int `json:"yama"`
	// Cgroup is the version 2 hierarchy as far as it is usable from here.
	Cgroup cgroup.Host `json:"cgroup"`
	// RLimits are the daemon's own hard limits, by the names of /proc/PID/limits' man page: "nofile", "core", …; -1 is unlimited.
	RLimits map[string]int64 `json:"rlimits"`
	// Namespaces are the inode numbers of the daemon's own, by name ("mnt", "pid", …).
	Namespaces map[string]uint64 `json:"namespaces"`
	// Sources are the directories and files that sandboxes may show, found on this host, each with its device and root.
	Sources []mount.Source `json:"sources"`
}

// Tier is the highest that this host holds: with namespaces of its own for each sandbox it is full, with the fence by uid net.
func (h Host) Tier() policy.Tier {
	switch {
	case h.Attached && h.PodFence:
		return policy.TierNet
	case h.Attached:
		return policy.TierRestricted
	}
	if h.root() || h.UID != 0 && h.UserNamespaces {
		return policy.TierFull
	}
	return policy.TierRestricted
}

// root says whether the daemon is root with what a sandbox of another uid takes. Root in many containers isn't.
func (h Host) root() bool {
	const needed = 1<<6 | 1<<7 | 1<<8 | 1<<21 // CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_SYS_ADMIN
	return h.UID == 0 && h.Capabilities&needed == needed
}
