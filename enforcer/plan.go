package enforcer

import (
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// SandboxPlan is one local sandbox: its namespaces, its root and its ids. The launcher makes it before anything else of the sandbox runs.
type SandboxPlan struct {
	// Namespaces are the names of the new ones: "mnt", "pid", "ipc", "uts", "net", "cgroup" where the kernel has it, and "user" when the daemon
	// isn't root.
	Namespaces []string `json:"namespaces"`
	Hostname   string   `json:"hostname"`
	// Network is the fence of its network namespace. Without one (Variant is empty) the namespace has the loopback and no way out at all.
	Network fence.Plan `json:"network,omitzero"`
	// ProxyPort is where the relay listens as a proxy on the loopback of the machine's own network namespace, for a sandbox without a namespace of its
	// own ("net" isn't among Namespaces); 0: nothing can be let out there.
	ProxyPort uint16 `json:"proxyPort,omitzero"`
	// Root is the file system that the sandbox sees, whole.
	Root mount.Root `json:"root"`
	// Image is the digest of the image that the root is made from, empty where it shows the host's directories; ImageTop are the image's own directories
	// right below the root.
	Image    string   `json:"image,omitempty"`
	ImageTop []string `json:"imageTop,omitempty"`
	// Worker are the ids of launcher and workers: never the daemon's (where there is more than one uid) and never a child's.
	Worker Identity `json:"worker"`
	// Child are the ids that execs get unless they ask for others.
	Child Identity `json:"child"`
	// Outside are the ids that the user namespace maps Worker and Child from, which are the same there: one uid is all that an ordinary user
	// has. Without a user namespace it equals Worker.
	Outside Identity `json:"outside"`
	// Attached is set for a sandbox that somebody else made: then nothing of the above is made, and Root only says what may be written to.
	Attached *Attachment `json:"attached,omitempty"`
	// Degraded has what this place lacks, whatever policy says of it.
	Degraded []string `json:"degraded,omitempty"`
}

// Identity is who a process is, all of real, effective, saved and file-system ids alike. Never 0 and never -1 in a child.
type Identity struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
}

// Plan is one exec's confinement, made concrete for this host. Inert; the launcher's worker turns it into system calls.
// Its digest covers all of it, and nothing of the command: two execs with one digest are confined alike.
type Plan struct {
	Tier policy.Tier `json:"tier"`
	// Identity is as the daemon sees it: in a sandbox with a user namespace, the ids outside of that.
	Identity Identity `json:"identity"`
	// Securebits is 0xef, all locked, or 0 where the worker has no CAP_SETPCAP (then the lack is in Degraded).
	Securebits int `json:"securebits"`
	// DropBounding says that the bounding set is emptied, 0..LastCapability.
	DropBounding   bool `json:"dropBounding"`
	LastCapability int  `json:"lastCapability"`
	// SetIDs and SetGroups say whether the child changes its ids (root) or keeps the worker's (user namespace with one id).
	SetIDs    bool `json:"setIds"`
	SetGroups bool `json:"setGroups"`

	// WritableRoot says that the sandbox's root is an image's and takes what is written; whether this exec may is in Landlock's rules.
	WritableRoot bool `json:"writableRoot,omitzero"`
	// Attached says that the sandbox is one that somebody else made ([SandboxPlan].Attached). Bounding is what stays in the bounding set there, and
	// Filters how many seccomp filters a child has before ours.
	Attached bool   `json:"attached,omitzero"`
	Bounding uint64 `json:"bounding,omitzero"`
	Filters  int    `json:"filters,omitzero"`

	// Terminal says that standard input, output and error are a terminal of the child's own, which controls its session.
	Terminal bool `json:"terminal,omitzero"`

	Umask   int      `json:"umask"`
	RLimits []RLimit `json:"rlimits"`

	// Network says what keeps the exec from any network but the one it may have: one of the words NetworkNone to NetworkProxy.
	Network  string           `json:"network"`
	Landlock landlock.Ruleset `json:"landlock"`
	Seccomp  seccomp.Filter   `json:"seccomp"`
	// Readback says that the installed program is read back and compared byte for byte; false where the host doesn't allow it.
	Readback bool `json:"readback"`

	// Cgroup has the values of the exec's own cgroup, by file name ("memory.max": "1048576"); nil: no cgroup, the worker's shepherd kills.
	Cgroup map[string]string `json:"cgroup,omitzero"`
	// CPUTime is the processor time in microseconds after which the runner kills the tree, by its cgroup's count; 0: no limit by that count.
	CPUTime int64 `json:"cpuTimeMicroseconds,omitzero"`
	// Memory is how much the tree may hold, in bytes, before the runner kills it, by the runner's own count; 0: nobody counts. Only in place of
	// memory.max, where policy accepts that there is none.
	Memory int64 `json:"memoryCountedBytes,omitzero"`
	// Kill is "cgroup" or "shepherd".
	Kill string `json:"kill"`

	// Degraded has what this host lacks and policy accepted, each with its reason. What the sandbox lacks is in its own plan.
	Degraded []string `json:"degraded,omitempty"`
}

// The ways to kill a tree and to prove it empty.
const (
	KillCgroup   = "cgroup"
	KillShepherd = "shepherd"
)

// RLimit is one resource limit; soft and hard are the same. -1 is unlimited.
type RLimit struct {
	Name     string `json:"name"`     // as in Host.RLimits
	Resource int    `json:"resource"` // RLIMIT_*
	Value    int64  `json:"value"`
}

// Invocation is what is executed under a Plan: argv, environment, directory and the granted descriptors. It isn't part of the plan's digest.
type Invocation struct {
	// Argv[0] with a slash is the path; else it is looked up in the PATH of Env.
	Argv []string `json:"argv"`
	// Env is "NAME=value", sorted.
	Env []string `json:"env"`
	Cwd string   `json:"cwd"`
	// Extra is how many descriptors besides 0, 1 and 2 the child gets, numbered from 3.
	Extra int `json:"extra"`
	// Own says that the target is the launcher's own binary, which the worker executes by descriptor: Argv[0] is its name, Argv[1] the mode. No
	// path is looked up, so that nothing in the sandbox can stand in its place.
	Own bool `json:"own,omitzero"`
}
