package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// Act is one forbidden act, and what must come of it under a plan. A process under that plan tries it (the launcher binary's mode "probe");
// [CheckActs] holds what it saw against this.
type Act struct {
	// Name says what is tried: "landlock.make_dir", "seccomp.mount". It is the row's control too.
	Name string
	// Want has the answers that hold: errnos by name, or the signal that ends who tries it.
	Want []string
	// Alone says that the act ends who tries it, so that it has a process of its own.
	Alone bool
}

// killed is the answer of an act that the kernel ends a process for.
const killed = "SIGSYS"

// auditI386 is AUDIT_ARCH_I386, the architecture of int 0x80.
const auditI386 = 0x40000003

// Acts are the acts that a plan forbids, with its own answer to each: a call that its filter lets through, and a right that this kernel's Landlock
// doesn't know, aren't among them.
func Acts(p Plan, arch string) []Act {
	return slices.Concat(commonActs(p), landlockActs(p), networkActs(p), seccompActs(p, arch))
}

// rootActs are those that a read-only root refuses. Where the sandbox's own can be written, nobody makes a new name at its top, and that is Landlock's to hold.
func rootActs(p Plan) []Act {
	switch {
	case !p.WritableRoot:
		return []Act{
			{Name: "root.create", Want: []string{"EROFS"}},
			{Name: "root.create in /usr", Want: []string{"EROFS", "ENOENT"}}, // an image may have none
		}
	case p.Landlock.HandledFS&unix.LANDLOCK_ACCESS_FS_MAKE_REG != 0:
		return []Act{{Name: "root.create", Want: []string{"EACCES"}}}
	}
	return nil
}

// commonActs are held by ids, mounts and limits.
func commonActs(p Plan) []Act {
	if p.Attached { // the file system isn't of our making
		return attachedActs(p)
	}
	acts := slices.Concat(rootActs(p), ownPlacesActs(p))
	acts = append(acts, []Act{
		{Name: "root.create in /dev", Want: []string{"EROFS"}},
		{Name: "proc.write core_pattern", Want: []string{"EACCES", "EROFS"}},
		// hidepid shows nothing of a process that one may not trace.
		{Name: "proc.launcher's memory", Want: []string{"ENOENT", "EACCES", "EPERM"}},
		{Name: "proc.launcher's environ", Want: []string{"ENOENT", "EACCES", "EPERM"}},
		{Name: "proc.launcher's root", Want: []string{"ENOENT", "EACCES", "EPERM"}},
		{Name: "launcher.write own binary", Want: []string{"EACCES", "ETXTBSY", "EPERM"}},
		{Name: "identity.become 0", Want: []string{"EPERM", "EINVAL"}}, // EINVAL: a user namespace without that id
		{Name: "identity.groups", Want: []string{"EPERM"}},
		{Name: "capabilities.raise", Want: []string{"EPERM"}},
		{Name: "no_new_privs.clear", Want: []string{"EINVAL"}},
	}...)
	if slices.ContainsFunc(p.RLimits, func(l RLimit) bool { return l.Resource == unix.RLIMIT_NOFILE && l.Value >= 0 }) {
		acts = append(acts, Act{Name: "rlimit.nofile raise", Want: []string{"EPERM"}})
	}
	// As an ordinary user it is the domain alone that refuses it, and landlock.scope.signal says so.
	if p.SetIDs {
		acts = append(acts, Act{Name: "identity.signal the launcher", Want: []string{"EPERM"}})
	}
	return acts
}

// ownPlacesActs are those on the directories of a sandbox that take files. A plan that reads only makes none there: open(2) is Landlock's to refuse
// then, and the file that mmap(2) would be refused for noexec can't come to be.
func ownPlacesActs(p Plan) []Act {
	var acts []Act
	for _, rule := range p.Landlock.Paths {
		if !slices.Contains(ownPlaces, rule.Path) || rule.Access&unix.LANDLOCK_ACCESS_FS_MAKE_REG != 0 {
			continue
		}
		acts = append(acts, Act{Name: "landlock.create in " + rule.Path, Want: []string{"EACCES"}})
		if rule.Path == workPlace {
			acts = append(acts, Act{Name: "landlock.nameless file in " + workPlace, Want: []string{"EACCES"}})
		}
	}
	readOnly := slices.ContainsFunc(acts, func(a Act) bool { return a.Name == "landlock.create in "+sharedMemory })
	if !readOnly && !p.Attached { // there noexec is the runtime's to give or not
		acts = append(acts, Act{Name: "root.map executable from " + sharedMemory, Want: []string{"EPERM"}})
	}
	return acts
}

// The directories of a sandbox that take files.
const (
	workPlace    = "/work"
	sharedMemory = "/dev/shm"
)

var ownPlaces = []string{sharedMemory, "/tmp", workPlace}

// attachedActs are what commonActs are, in a root that somebody else made.
func attachedActs(p Plan) []Act {
	acts := append(ownPlacesActs(p), []Act{
		{Name: "proc.write core_pattern", Want: []string{"EACCES", "EROFS", "ENOENT"}},
		// Of the same uid as who tries it: that it can't be traced is all that keeps it closed.
		{Name: "proc.worker's memory", Want: []string{"EACCES", "EPERM"}},
		{Name: "proc.worker's environ", Want: []string{"EACCES", "EPERM"}},
		{Name: "proc.worker's root", Want: []string{"EACCES", "EPERM"}},
		{Name: "launcher.write own binary", Want: []string{"EACCES", "ETXTBSY", "EPERM"}},
		{Name: "identity.become 0", Want: []string{"EPERM", "EINVAL"}},
		{Name: "identity.groups", Want: []string{"EPERM"}},
		{Name: "capabilities.raise", Want: []string{"EPERM"}},
		{Name: "no_new_privs.clear", Want: []string{"EINVAL"}},
	}...)
	if slices.ContainsFunc(p.RLimits, func(l RLimit) bool { return l.Resource == unix.RLIMIT_NOFILE && l.Value >= 0 }) {
		acts = append(acts, Act{Name: "rlimit.nofile raise", Want: []string{"EPERM"}})
	}
	return acts
}

// landlockActs are one for each right that the plan's domain handles and doesn't grant everywhere, as it does reading and executing. The place of
// an act is one where permissions and mounts would allow it, so that EACCES is Landlock's own.
func landlockActs(p Plan) []Act {
	var acts []Act
	part := func(there uint64, name string, want ...string) {
		if there != 0 {
			acts = append(acts, Act{Name: "landlock." + name, Want: want})
		}
	}
	fs, net := p.Landlock.HandledFS, p.Landlock.HandledNet
	if p.Network == NetworkFilter {
		net = 0 // no socket to try it on
	}
	if p.Attached { // nothing is there that others of these rights could be tried on
		part(fs&unix.LANDLOCK_ACCESS_FS_WRITE_FILE, "write_device", "EACCES")
		fs = 0
	}
	part(fs&unix.LANDLOCK_ACCESS_FS_WRITE_FILE, "write_file", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_WRITE_FILE, "write_fifo", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_TRUNCATE, "truncate", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, "ioctl_dev", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_REMOVE_FILE, "remove_file", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_REMOVE_DIR, "remove_dir", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_REG, "make_reg", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_DIR, "make_dir", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_SYM, "make_sym", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_FIFO, "make_fifo", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_SOCK, "make_sock", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_CHAR, "make_char", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_CHAR, "make_char in /tmp", "EACCES")
	part(fs&unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK, "make_block in /tmp", "EACCES")
	// Another directory takes the right to refer, and the right to make the file there: the kernel names the one or the other.
	part(fs&unix.LANDLOCK_ACCESS_FS_REFER, "refer", "EACCES", "EXDEV")
	part(net&unix.LANDLOCK_ACCESS_NET_BIND_TCP, "net.bind", "EACCES")
	part(net&unix.LANDLOCK_ACCESS_NET_BIND_TCP, "net.bind6", "EACCES")
	part(net&unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, "net.connect", "EACCES")
	part(net&unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, "net.connect6", "EACCES")
	part(p.Landlock.Scoped&unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, "scope.abstract", "EPERM")
	if !p.SetIDs { // else the ids alone refuse it, and it says nothing of the domain
		part(p.Landlock.Scoped&unix.LANDLOCK_SCOPE_SIGNAL, "scope.signal", "EPERM")
	}
	return acts
}

// seccompActs have the answers that the plan's own program gives, simulated.
func seccompActs(p Plan, arch string) []Act {
	program := p.Seccomp.Program
	if len(program) == 0 {
		return nil
	}
	if p.Seccomp.Listener == seccomp.ListenerExplain {
		program = p.Seccomp.Answers // the listener's answers are these
	}
	var acts []Act
	add := func(name string, answer seccomp.Action) {
		errno, refused := answer.Errno()
		switch {
		case refused && errno != 0:
			acts = append(acts, Act{Name: "seccomp." + name, Want: []string{unix.ErrnoName(errno)}})
		case answer&0xffff0000 == seccomp.KillProcess:
			acts = append(acts, Act{Name: "seccomp." + name, Want: []string{killed}, Alone: true})
		}
	}
	for _, call := range slices.Concat(actCalls, networkCalls, readingCalls) {
		if nr, ok := call.Number(arch); ok {
			add(call.Name, seccomp.Action(program.Run(seccomp.AuditArch(arch), nr, call.Args)))
		}
	}
	if arch == "amd64" {
		add(ForeignAct, seccomp.Action(program.Run(auditI386, 20, [6]uint64{}))) // getpid
	}
	return acts
}

// ForeignAct is getpid by the 32 bit entry, int 0x80.
const ForeignAct = "i386 getpid"

// CallOf finds the system call of an act of that name, "seccomp." left off.
func CallOf(name string) (ActCall, bool) {
	for _, call := range slices.Concat(actCalls, networkCalls, readingCalls) {
		if call.Name == name {
			return call, true
		}
	}
	return ActCall{}, false
}

// Number is the call's number on an architecture; false where it has no such call.
func (c ActCall) Number(arch string) (uint64, bool) {
	if c.Call == "" {
		return unknownCall, true
	}
	if c.Bit != 0 && arch != "amd64" {
		return 0, false
	}
	nr, ok := seccomp.Number(arch, c.Call)
	return uint64(nr) | c.Bit, ok
}

// CheckActs compares answers, by the acts' names, with what the acts must come to. An act without an answer wasn't tried, and doesn't hold.
func CheckActs(acts []Act, answers map[string]string) []policy.Row {
	rows := make([]policy.Row, 0, len(acts))
	for _, act := range acts {
		got, tried := answers[act.Name]
		if !tried {
			got = "not tried"
		}
		rows = append(rows, policy.Row{
			Control: act.Name, Want: strings.Join(act.Want, " or "), Got: got, Held: tried && slices.Contains(act.Want, got), Evidence: policy.EvidenceProbe,
		})
	}
	if len(rows) == 0 {
		rows = append(rows, policy.Row{Control: "acts", Want: "some", Got: fmt.Sprint(len(acts)), Evidence: policy.EvidenceProbe})
	}
	return rows
}

// ConfinementDigest is the digest of a plan without whose ids it has. Children of one daemon differ in their uids, one for each sandbox, and in
// nothing that an act's answer depends on: what was proven by one such process holds for the next.
func (p Plan) ConfinementDigest() string {
	p.Identity, p.Terminal = Identity{}, false
	return p.Digest()
}
