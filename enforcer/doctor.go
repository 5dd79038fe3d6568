package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/caps"
	"github.com/sandboxd/sandboxd/policy"
)

// Mechanism is one thing that a host may have, for a person to read.
type Mechanism struct {
	// Name is that of the lack where policy may accept it ("cgroup.memory").
	Name   string `json:"name"`
	Have   bool   `json:"have"`
	Detail string `json:"detail"`
	// HowToGet is empty where it is there.
	HowToGet string `json:"howToGet,omitempty"`
}

// Doctor lists every mechanism of this host, the tier first.
func (h Host) Doctor() []Mechanism {
	var all []Mechanism
	add := func(name string, have bool, detail, howToGet string) {
		if have {
			howToGet = ""
		}
		all = append(all, Mechanism{Name: name, Have: have, Detail: detail, HowToGet: howToGet})
	}
	if h.Attached {
		h.doctorAttached(add)
		return all
	}
	tier := h.Tier()
	add("tier", tier == policy.TierFull, fmt.Sprintf("%s, on Linux %s %s as uid %d", tier, h.Kernel, h.Arch, h.UID),
		"run sandboxd as root with its capabilities, or as an ordinary user where user namespaces are allowed")
	place := "in the machine's own user namespace"
	if !h.InitialUserNamespace {
		place = "in a user namespace"
	}
	add("capabilities", h.UID != 0 || h.root(), place+": "+setText(h.Capabilities, h.LastCapability),
		"root needs CAP_SYS_ADMIN, CAP_SETPCAP, CAP_SETUID and CAP_SETGID to make sandboxes: add them, or run as an ordinary user")
	add("user namespaces", h.UserNamespaces, "a namespace with one id, and mounts in it, tried",
		"set user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0, where these exist")
	h.doctorLandlock(add)
	h.doctorSeccomp(add)
	h.doctorCgroup(add)
	fenced := "sandboxes may be let out to named places; made and read back in a throw-away network namespace"
	if !h.Fence {
		fenced = h.FenceWhy
	}
	add(networkFence, h.Fence, fenced, howToFence)
	logged := "connections that the fence refuses by itself are told of, and on record"
	if h.Fence && !h.FenceLog {
		logged = h.FenceLogWhy
	}
	add("network.datagrams", h.FenceDatagrams, "UDP may be let out", "CAP_NET_RAW for a daemon that runs as root")
	add("fence.log", h.FenceLog, logged, "a kernel with CONFIG_NFT_LOG and CONFIG_NETFILTER_NETLINK_LOG (modprobe nft_log nfnetlink_log)")
	add("pidfd.pass", h.PassPidFD, "SO_PASSPIDFD: the kernel gives the child's pidfd", "Linux 6.5")
	add("pidfd.info", h.PidFDInfo, "PIDFD_GET_INFO", "Linux 6.13")
	add("dumpable", h.SuidDumpable != 1, fmt.Sprintf("fs.suid_dumpable is %d", h.SuidDumpable),
		"set fs.suid_dumpable to 0 or 2: with 1 a change of ids leaves a process open to others of its uid for a moment")
	yama := "absent; sandboxd doesn't need it"
	if h.Yama >= 0 {
		yama = fmt.Sprintf("ptrace_scope is %d", h.Yama)
	}
	add("yama", h.Yama < 3, yama, "with kernel.yama.ptrace_scope=3 nobody may trace, so filters can't be read back: set it to 2 or less")
	return all
}

// doctorAttached is Doctor where launchers connect.
func (h Host) doctorAttached(add adder) {
	add("tier", h.PodFence, fmt.Sprintf("%s, on Linux %s %s as uid %d", h.Tier(), h.Kernel, h.Arch, h.UID),
		"give the daemon NET_ADMIN for the tier net; full is where a daemon makes its sandboxes itself")
	add("place", true, "attached: the sandbox is the container of a launcher that connects (--runner-socket); nothing of it is made here", "")
	add("capabilities", !h.Opaque, setText(h.Capabilities, h.LastCapability),
		"CAP_SYS_PTRACE shows which descriptors, program and directory a process of another uid has; without, the child's own steps say so")
	fenced := "rules by uid in this network namespace, made and read back; the relay behind them"
	if !h.PodFence {
		fenced = h.PodFenceWhy
	}
	add(networkFence, h.PodFence, fenced, "NET_ADMIN for the daemon, and a kernel with CONFIG_NF_TABLES_INET, CONFIG_NFT_NAT, CONFIG_NFT_REDIR and CONFIG_NFT_CT; or --proxy-port, for programs that ask a proxy")
	h.doctorLandlock(add)
	h.doctorSeccomp(add)
	h.doctorCgroup(add)
	add("pidfd.pass", h.PassPidFD, "SO_PASSPIDFD: the kernel gives the child's pidfd", "Linux 6.5")
	add("dumpable", h.SuidDumpable != 1, fmt.Sprintf("fs.suid_dumpable is %d", h.SuidDumpable), "set fs.suid_dumpable to 0 or 2")
}

// setText names the smaller half of a set.
func setText(set uint64, last int) string {
	all := caps.All(last)
	if missing := all &^ set; set != 0 && missing == 0 {
		return "all capabilities"
	} else if set != 0 && missing&(missing-1) == 0 {
		return "all capabilities but " + caps.Text(missing)
	}
	return "capabilities: " + caps.Text(set)
}

type adder func(name string, have bool, detail, howToGet string)

func (h Host) doctorLandlock(add adder) {
	abi := fmt.Sprintf("ABI %d", h.LandlockABI)
	for _, part := range []struct {
		name, detail, kernel string
		abi                  int
	}{
		{"landlock", "files", "Linux 5.13 with landlock among the LSMs (lsm=)", 1},
		{"landlock.refer", "files moved and linked from one directory to another, which no exec may on an older kernel (EXDEV)", "Linux 5.19", 2},
		{"landlock.truncate", "truncating files", "Linux 6.2", 3},
		{"landlock.net", "TCP bind and connect", "Linux 6.7", 4},
		{"landlock.ioctl", "ioctl on devices", "Linux 6.10", 5},
		{"landlock.scope", "signals and abstract sockets", "Linux 6.12", 6},
	} {
		add(part.name, h.LandlockABI >= part.abi, part.detail+", "+abi, part.kernel)
	}
}

func (h Host) doctorSeccomp(add adder) {
	add("seccomp", slices.Contains(h.SeccompActions, "errno"), "actions: "+strings.Join(h.SeccompActions, " "), "a kernel with CONFIG_SECCOMP_FILTER")
	add("seccomp.readback", h.SeccompReadback, "the installed program read back by ptrace, tried",
		"CAP_SYS_ADMIN and CAP_SYS_PTRACE in the machine's own user namespace, and no filter on sandboxd itself; without, mode and probes are the evidence")
	add(seccompListener, h.SeccompListener, "denied calls named (explainDenials) and profiles recorded", "Linux 5.19")
	add(terminalPrivate, h.Terminals, "a devpts for each terminal, tried", "run sandboxd as root: mounting devpts takes CAP_SYS_ADMIN")
}

func (h Host) doctorCgroup(add adder) {
	detail := "layout " + h.Cgroup.Layout
	if h.Cgroup.Base != "" {
		detail += ", groups in " + h.Cgroup.Base
	}
	if h.Cgroup.Why != "" {
		detail += ": " + h.Cgroup.Why
	}
	add("cgroup", h.Cgroup.Base != "", detail, "run sandboxd as root, or in a unit with Delegate=yes and DelegateSubgroup=")
	add("cgroup.kill", h.Cgroup.Kill, "whole trees killed by one write", "Linux 5.14 and a writable cgroup version 2 tree")
	add("cgroup.freeze", h.Cgroup.Freeze, "whole trees stopped", "a writable cgroup version 2 tree")
	for _, limit := range []struct{ controller, what string }{
		{"memory", "limits.memoryBytes"}, {"cpu", "limits.cpu"}, {"pids", "limits.pids by group; RLIMIT_NPROC stands in where it is missing"},
	} {
		add("cgroup."+limit.controller, slices.Contains(h.Cgroup.Controllers, limit.controller), limit.what, howToController)
	}
	add("cgroup.usage", h.Cgroup.Base != "" && h.Cgroup.Kill, "limits.cpuSeconds: the processor time of whole trees, counted", howToController)
	way := "by cgroup.kill"
	if !h.Cgroup.Kill {
		way = "by the worker in its Landlock signal scope"
	}
	add("kill.tree", h.Cgroup.Base != "" && h.Cgroup.Kill || h.LandlockABI >= 6, way, "Linux 6.12, or a writable cgroup version 2 tree")
}

// networkFence is the name of what a way out takes, and howToFence how it is got.
const (
	networkFence = "network.fence"
	howToFence   = "a kernel with CONFIG_NF_TABLES_INET, CONFIG_NFT_TPROXY and CONFIG_NFT_REJECT_INET (modprobe nft_tproxy nft_reject_inet)"
)
