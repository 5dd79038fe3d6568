package runner

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// Step is one system call of the child, and the answer without which the child dies. A table of them is all that a child does between its
// birth and the target's first instruction.
type Step struct {
	// Name is what reports, verdicts and tests call it: "setresuid", "rlimit.nofile", "probe.seccomp.unshare".
	Name string
	Nr   uintptr
	Args [6]uint64
	// Memory has the arguments that are pointers.
	Memory []Memory
	// Want is what the kernel must answer: a value, or minus an errno. With Any, each answer that isn't an error will do.
	Want int64
	Any  bool
	// Probe says that the call is a forbidden act: it changes nothing, and its refusal is the evidence that a control is on.
	Probe bool
	// Gate is the descriptor on which a failure of this step is told.
	Gate int
}

// Memory is one argument that points to memory. Exactly one of the others is set.
type Memory struct {
	// Arg is the argument's index.
	Arg int
	// Bytes: a pointer to a copy of them.
	Bytes []byte
	// Strings: a pointer to an array of pointers to C strings, NULL at its end.
	Strings []string
	// Program: a pointer to a struct sock_fprog over these bytes.
	Program []byte
	// Word: a pointer into the words that parent and child share.
	Word Word
}

// Word names a piece of the memory that the child writes to and the worker reads.
type Word int

// The shared words.
const (
	noWord       Word = iota
	wordReady         // what READY carries
	wordBorn          // what BORN carries
	wordGate          // where the release is read to
	wordListener      // what says that the filter's listener is there
)

// The child's descriptors as the worker holds them before the table moves them. All are above those of any child, so that no move meets another.
const (
	sourceStdin  = 100
	sourceStdout = 101
	sourceStderr = 102
	sourceGate   = 103
	sourceCgroup = 104
	sourceRules  = 105
	sourceTarget = 106
	sourceExtra  = 110
	// maxExtra is how many descriptors a child may get besides 0, 1 and 2.
	maxExtra = 16
)

// ErrTable refuses a plan or an invocation that no table can be made of. It is a mistake of the caller's, found before anything is started.
var ErrTable = errors.New("runner: no table can be made of this")

// Steps makes the child's table. It is pure: the daemon makes the same one to know the names, the worker to have it walked. worker is the
// worker's pid in its own PID namespace; the daemon, which doesn't walk, may give any.
//
// The order is the point. Each part says why it is where it is.
func Steps(plan enforcer.Plan, inv enforcer.Invocation, worker int) ([]Step, error) {
	if err := check(plan, inv); err != nil {
		return nil, err
	}
	t := &builder{gate: sourceGate}
	// A pidfd reaches the daemon before any step that can hang.
	t.add(Step{Name: "born", Nr: unix.SYS_WRITE, Args: [6]uint64{sourceGate, 0, bornSize}, Memory: []Memory{{Arg: 1, Word: wordBorn}}, Want: bornSize})
	t.descriptors(plan, inv)
	// An own session: no controlling terminal to push characters into, and no process group shared with the worker.
	t.add(Step{Name: "setsid", Nr: unix.SYS_SETSID, Any: true})
	if plan.Terminal {
		// While nobody but us has it, and as the leader of a session that has none: the kernel gives it to no other session from here.
		t.add(Step{Name: "terminal", Nr: unix.SYS_IOCTL, Args: [6]uint64{0, unix.TIOCSCTTY}})
	}
	t.limits(plan)
	t.privileges(plan)
	// After the ids, so that the target's own permissions decide which directories it may start in.
	t.add(Step{Name: "chdir", Nr: unix.SYS_CHDIR, Memory: []Memory{{Arg: 0, Bytes: cstring(inv.Cwd)}}})
	// Both are reset by a change of ids, so they come after it. dumpable acts on the memory, which a vfork child shares with its worker: wanted.
	t.prctl("dumpable", unix.PR_SET_DUMPABLE, 0)
	// The kernel sends pdeathsig in the worker's name, so it comes only where the worker may signal the child. Where it may not, by another uid,
	// the daemon kills when the worker's socket ends, and the end of the sandbox's PID namespace kills when the daemon's does.
	t.prctl("pdeathsig", unix.PR_SET_PDEATHSIG, uint64(unix.SIGKILL))
	// If the worker died before pdeathsig was set, nobody would send it.
	t.add(Step{Name: "parent", Nr: unix.SYS_GETPPID, Want: int64(worker)})
	// Landlock and seccomp may be used without privilege only with it.
	t.prctl("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1)
	t.landlock(plan, inv, worker)
	t.seccomp(plan, inv)
	t.release(inv)
	return t.steps, nil
}

// Names are the names of steps, in their order.
func Names(steps []Step) []string {
	names := make([]string, len(steps))
	for i, step := range steps {
		names[i] = step.Name
	}
	return names
}

// builder collects steps, all told to fail on the gate where it is by then.
type builder struct {
	steps []Step
	gate  int
}

func (t *builder) add(s Step) {
	s.Gate = t.gate
	t.steps = append(t.steps, s)
}

func (t *builder) prctl(name string, option int, value uint64) {
	t.add(Step{Name: name, Nr: unix.SYS_PRCTL, Args: [6]uint64{uint64(option), value}})
}

func (t *builder) dup(name string, from, to, flags int) {
	t.add(Step{Name: name, Nr: unix.SYS_DUP3, Args: [6]uint64{uint64(from), uint64(to), uint64(flags)}, Want: int64(to)})
}

// descriptors gives the child its own and nothing else: whatever the worker has open, by mistake or not, ends at close_range.
func (t *builder) descriptors(plan enforcer.Plan, inv enforcer.Invocation) {
	for i, source := range []int{sourceStdin, sourceStdout, sourceStderr} {
		t.dup("stdio."+strconv.Itoa(i), source, i, 0)
	}
	for i := range inv.Extra {
		t.dup("extra."+strconv.Itoa(3+i), sourceExtra+i, 3+i, 0)
	}
	fds := numbers(inv.Extra)
	t.dup("descriptor.gate", sourceGate, fds.gate, unix.O_CLOEXEC)
	t.gate = fds.gate
	if landlocked(plan) {
		t.dup("descriptor.landlock", sourceRules, fds.rules, unix.O_CLOEXEC)
	} else { // the number may be one of the worker's
		t.add(Step{Name: "descriptor.none", Nr: unix.SYS_CLOSE_RANGE, Args: [6]uint64{uint64(fds.rules), uint64(fds.rules), 0}})
	}
	t.dup("descriptor.target", sourceTarget, fds.target, unix.O_CLOEXEC)
	t.add(Step{Name: "close_range", Nr: unix.SYS_CLOSE_RANGE, Args: [6]uint64{uint64(fds.target + 1), uint64(^uint32(0)), 0}})
}

// limits come before privilege is given up, since a hard limit may need it.
func (t *builder) limits(plan enforcer.Plan) {
	for _, limit := range plan.RLimits {
		value := uint64(limit.Value) // -1 is RLIM_INFINITY, ~0
		t.add(Step{
			Name: "rlimit." + limit.Name, Nr: unix.SYS_PRLIMIT64, Args: [6]uint64{0, uint64(limit.Resource)},
			Memory: []Memory{{Arg: 2, Bytes: words(value, value)}},
		})
	}
	t.add(Step{Name: "umask", Nr: unix.SYS_UMASK, Args: [6]uint64{uint64(plan.Umask)}, Any: true})
}

// privileges gives up ids and capabilities, in the only order in which each step still has the right to its act.
func (t *builder) privileges(plan enforcer.Plan) {
	if plan.DropBounding {
		// The worker has emptied its own set, which its children inherit: 41 calls less in each child.
		// Here the kernel is asked for the one that is worth most; the daemon reads the whole set back.
		t.add(Step{Name: "probe.capability.bounding", Nr: unix.SYS_PRCTL, Args: [6]uint64{unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN}, Probe: true})
	}
	if plan.Securebits != 0 { // needs CAP_SETPCAP; NO_SETUID_FIXUP in it keeps capabilities over the change of ids
		t.prctl("securebits", unix.PR_SET_SECUREBITS, uint64(plan.Securebits))
	}
	if plan.SetGroups { // needs CAP_SETGID, so before it goes
		groups := make([]byte, 0, 4*len(plan.Identity.Groups))
		for _, group := range plan.Identity.Groups {
			groups = order.AppendUint32(groups, uint32(group))
		}
		step := Step{Name: "setgroups", Nr: unix.SYS_SETGROUPS, Args: [6]uint64{uint64(len(plan.Identity.Groups))}}
		if len(groups) > 0 {
			step.Memory = []Memory{{Arg: 1, Bytes: groups}}
		}
		t.add(step)
	}
	if plan.SetIDs { // the group first: the user's change may take CAP_SETGID away
		uid, gid := uint64(uint32(plan.Identity.UID)), uint64(uint32(plan.Identity.GID))
		t.add(Step{Name: "setresgid", Nr: unix.SYS_SETRESGID, Args: [6]uint64{gid, gid, gid}})
		t.add(Step{Name: "setresuid", Nr: unix.SYS_SETRESUID, Args: [6]uint64{uid, uid, uid}})
	}
	// The last privileged act. The ambient set needs no step of its own: the kernel keeps it within permitted and inheritable (cap_capset), and
	// both are empty from here.
	t.add(Step{
		Name: "capset", Nr: unix.SYS_CAPSET,
		Memory: []Memory{{Arg: 0, Bytes: order.AppendUint32(order.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3), 0)}, {Arg: 1, Bytes: make([]byte, 24)}},
	})
}

// release is the gate and what follows it. From seccomp on, the filter allows these calls at least: rt_sigprocmask, write, read, execve, execveat, exit_group.
func (t *builder) release(inv enforcer.Invocation) {
	fds := numbers(inv.Extra)
	// Signals that came meanwhile act only now, under full confinement. It is before the gate, so that the mask with which the target starts is read
	// back there: once it runs, an empty mask that was left out can't be told from one that it has filled itself.
	t.add(Step{Name: "sigmask", Nr: unix.SYS_RT_SIGPROCMASK, Args: [6]uint64{uint64(unix.SIG_SETMASK), 0, 0, 8}, Memory: []Memory{{Arg: 1, Bytes: make([]byte, 8)}}})
	t.add(Step{Name: "ready", Nr: unix.SYS_WRITE, Args: [6]uint64{uint64(fds.gate), 0, readySize}, Memory: []Memory{{Arg: 1, Word: wordReady}}, Want: readySize})
	// One byte and no more. Two bytes are somebody else's message, none is the daemon's end or its refusal; either way the child dies here.
	t.add(Step{Name: "gate", Nr: unix.SYS_READ, Args: [6]uint64{uint64(fds.gate), 0, 2}, Memory: []Memory{{Arg: 1, Word: wordGate}}, Want: 1})
	// What was opened before the gate is what runs. The worker turns this into execve of the path where a descriptor won't do.
	t.add(Step{
		Name: "execve", Nr: unix.SYS_EXECVEAT, Args: [6]uint64{uint64(fds.target), 0, 0, 0, unix.AT_EMPTY_PATH},
		Memory: []Memory{{Arg: 1, Bytes: cstring("")}, {Arg: 2, Strings: inv.Argv}, {Arg: 3, Strings: inv.Env}}, Want: never,
	})
}

// never is an answer that no call gives: execve returns only when it failed.
const never = -4096

// childFDs are the numbers of the child's descriptors above those that it is given.
type childFDs struct{ gate, rules, target int }

func numbers(extra int) childFDs {
	return childFDs{gate: 3 + extra, rules: 4 + extra, target: 5 + extra}
}

// check refuses what would make a step do something else than its name.
func check(plan enforcer.Plan, inv enforcer.Invocation) error {
	if plan.SetIDs {
		// 0 is root; -1 means "no change" to setresuid(2), and the child would stay who the worker is.
		for name, id := range map[string]int{"uid": plan.Identity.UID, "gid": plan.Identity.GID} {
			if id <= 0 || id >= 1<<32-1 {
				return fmt.Errorf("%w: %s %d: an id in 1..4294967294 is wanted", ErrTable, name, id)
			}
		}
	}
	for _, group := range plan.Identity.Groups {
		if group <= 0 || group >= 1<<32-1 {
			return fmt.Errorf("%w: group %d: an id in 1..4294967294 is wanted", ErrTable, group)
		}
	}
	if plan.DropBounding && (plan.LastCapability < 0 || plan.LastCapability > 63) {
		return fmt.Errorf("%w: last capability %d: 0..63 is wanted", ErrTable, plan.LastCapability)
	}
	if len(inv.Argv) == 0 || inv.Argv[0] == "" {
		return fmt.Errorf("%w: argv is empty", ErrTable)
	}
	if inv.Own && (inv.Argv[0] != Name || len(inv.Argv) < 2 || modes[inv.Argv[1]] == nil) {
		return fmt.Errorf("%w: argv %.100q isn't our own binary with a mode that it has", ErrTable, inv.Argv)
	}
	if !strings.HasPrefix(inv.Cwd, "/") {
		return fmt.Errorf("%w: cwd %q isn't absolute", ErrTable, inv.Cwd)
	}
	if inv.Extra < 0 || inv.Extra > maxExtra {
		return fmt.Errorf("%w: %d extra descriptors: at most %d", ErrTable, inv.Extra, maxExtra)
	}
	for kind, texts := range map[string][]string{"argv": inv.Argv, "env": inv.Env, "cwd": {inv.Cwd}} {
		for _, text := range texts {
			if strings.ContainsRune(text, 0) {
				return fmt.Errorf("%w: a NUL byte in %s", ErrTable, kind)
			}
		}
	}
	return nil
}

func cstring(s string) []byte { return append([]byte(s), 0) }

func words(values ...uint64) []byte {
	var b []byte
	for _, value := range values {
		b = order.AppendUint64(b, value)
	}
	return b
}
