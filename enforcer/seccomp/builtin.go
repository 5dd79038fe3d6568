package seccomp

import (
	"fmt"
	"slices"
	"syscall"
)

// BuiltinProfile is a profile that comes with sandboxd: moby's default with edits. A request names it as Localhost "sandboxd/NAME".
type BuiltinProfile struct {
	Name string
	// Reason says who should use it.
	Reason string
	Edits  []Edit
}

// Edit is one difference from the default, with its reason. A rule that refuses always counts, since the strictest rule wins; one that allows lifts
// the default where no other rule refuses.
type Edit struct {
	Reason string
	Rules  []Rule
}

// Relaxes says whether the edit allows more than the default; else it refuses more.
func (e Edit) Relaxes() bool { return e.Rules[0].Action == Allow }

const (
	protWrite, protExec = 2, 4 // PROT_*
	mapAnonymous        = 0x20
	shmExec             = 0o100000
	noRandomize         = 0x0040000 // ADDR_NO_RANDOMIZE
)

func refusal(calls ...string) Rule { return Rule{Calls: calls, Action: Errno(syscall.EPERM)} }

func refusalWhere(call string, tests ...Test) Rule {
	return Rule{Calls: []string{call}, Tests: tests, Action: Errno(syscall.EPERM)}
}

// bits holds where all of these bits of an argument are set.
func bits(arg uint8, mask uint64) Test { return Test{Arg: arg, Op: Equal, Mask: mask, Value: mask} }

func is(arg uint8, value uint64) Test {
	return Test{Arg: arg, Op: Equal, Mask: 1<<64 - 1, Value: value}
}

// Builtins are the profiles of sandboxd, the tighter ones first.
func Builtins() []BuiltinProfile {
	return []BuiltinProfile{
		{
			Name:   "strict",
			Reason: "for code that computes and talks through its descriptors: no code made at run time, no memory shared by name, none of the kernel's rarely used corners",
			Edits: []Edit{
				{"memory that is written is never executed, and nothing becomes executable that was not mapped from a file: injected code has nowhere to run", []Rule{
					refusalWhere("mmap", bits(2, protWrite|protExec)), refusalWhere("mmap", bits(2, protExec), bits(3, mapAnonymous)),
					refusalWhere("mprotect", bits(2, protExec)), refusalWhere("pkey_mprotect", bits(2, protExec)), refusalWhere("shmat", bits(2, shmExec)),
				}},
				{"files without a name: programs that no policy about paths sees", []Rule{refusal("memfd_create", "memfd_secret")}},
				{"System V and POSIX queues, semaphores and memory: names that two execs of a sandbox share behind its files", []Rule{
					refusal("mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
						"msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget"),
				}},
				{"pages moved between pipes and files, where Dirty Pipe was (CVE-2022-0847)", []Rule{refusal("splice", "tee", "vmsplice")}},
				{"the old asynchronous I/O, which libraries use only when asked to", []Rule{
					refusal("io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit"),
				}},
				{"segments of 16-bit programs (CVE-2015-5157 and its kin)", []Rule{refusal("modify_ldt")}},
				{"what only a debugger or an administrator asks for", []Rule{
					refusal("adjtimex", "clock_adjtime", "fanotify_mark", "mincore", "process_mrelease", "remap_file_pages"),
				}},
				{"netlink: a sandbox has one link, and libraries that look for others get on without", []Rule{
					{Calls: []string{"socket"}, Tests: []Test{is(0, afNetlink)}, Action: Errno(syscall.EAFNOSUPPORT)},
				}},
			},
		},
		{Name: "default", Reason: "for everything else; it is RuntimeDefault under a name, moby's default profile"},
		{
			Name:   "jit",
			Reason: "for runtimes that make code and want it at known addresses (SBCL and other Lisp images, some JITs and debuggers); where policy makes strict the rule, it is also how a JIT gets executable memory",
			Edits: []Edit{
				{"switching address randomisation off for itself, then executing itself again", []Rule{
					{Calls: []string{"personality"}, Tests: []Test{is(0, noRandomize)}, Action: Allow},
				}},
			},
		},
		{
			Name:   "gpu",
			Reason: "for GPU runtimes and numerical libraries (CUDA, ROCm, oneAPI, libnuma), which place memory on nodes; a device itself must be in the sandbox's root to be used",
			Edits: []Edit{
				{"choosing the node of one's own memory; the kernel asks for no privilege, moby for CAP_SYS_NICE", []Rule{
					{Calls: []string{"get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"}, Action: Allow},
					{Calls: []string{"move_pages"}, Tests: []Test{is(0, 0)}, Action: Allow}, // of itself
				}},
			},
		},
	}
}

// Builtin is the profile of that name on an architecture and a kernel; the error lists those that there are.
func Builtin(name, arch, kernel string) (Profile, error) {
	all := Builtins()
	i := slices.IndexFunc(all, func(b BuiltinProfile) bool { return b.Name == name })
	if i < 0 {
		var names []string
		for _, b := range all {
			names = append(names, b.Name)
		}
		return Profile{}, &ProfileError{Message: fmt.Sprintf("sandboxd has no profile %q; it has %v", name, names), Nearest: nearest(name, names)}
	}
	p, err := RuntimeDefault(arch, kernel)
	for _, edit := range all[i].Edits {
		p.Rules = append(p.Rules, edit.Rules...)
	}
	return p, err
}
