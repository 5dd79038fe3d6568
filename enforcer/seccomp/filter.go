package seccomp

import (
	"fmt"
)

// candidates are calls that a filter ought to refuse. None of them does harm if it is not refused: they name nothing that exists, or act only
// on the child that is about to be killed for it. Without a filter a child that has no capabilities gets the answer on the right.
var candidates = [...]struct {
	name string
	call string
	args [6]uint64
}{
	{"keyctl", "keyctl", [6]uint64{0, minusThree}},                                   // KEYCTL_GET_KEYRING_ID of its own session: ENOKEY or a number
	{"io_uring_setup", "io_uring_setup", [6]uint64{}},                                // no entries, no parameters: EFAULT
	{"clone3", "clone3", [6]uint64{}},                                                // arguments of no size: EINVAL
	{"clone user namespace", "clone", [6]uint64{newUser | cloneThread}},              // a thread without shared signal handlers: EINVAL
	{"unshare user namespace", "unshare", [6]uint64{newUser}},                        // a namespace of its own, or EPERM
	{"setns", "setns", [6]uint64{minusOne}},                                          // no such descriptor: EBADF
	{"ptrace", "ptrace", [6]uint64{ptraceSeize, 0}},                                  // of nobody: ESRCH
	{"process_vm_readv", "process_vm_readv", [6]uint64{0, 0, 0, 0, 0, 1}},            // no such flag: EINVAL
	{"pidfd_getfd", "pidfd_getfd", [6]uint64{minusOne}},                              // EBADF
	{"prlimit64 of another", "prlimit64", [6]uint64{minusOne}},                       // nobody's number: ESRCH
	{"ioctl TIOCSTI", "ioctl", [6]uint64{minusOne, tiocsti}},                         // EBADF
	{"ioctl TIOCSTI with a high bit", "ioctl", [6]uint64{minusOne, 1<<32 | tiocsti}}, // EBADF
	{"socket AF_VSOCK", "socket", [6]uint64{40, sockStream}},                         // a descriptor, or EAFNOSUPPORT where the kernel has no vsock
	{"socket AF_PACKET", "socket", [6]uint64{17, 3}},                                 // EPERM
	{"socket netlink audit", "socket", [6]uint64{afNetlink, 3, 9}},                   // a descriptor, or EPROTONOSUPPORT
}

const (
	minusOne   = 1<<64 - 1
	minusThree = 1<<64 - 3

	newUser     = 0x10000000
	cloneThread = 0x10000
	ptraceSeize = 0x4206
)

// NewFilter compiles a profile under a name and chooses its probes: the candidates that the simulated program refuses with an errno. A filter
// that refuses none of them is an error, since nothing would show that it is there. What further rules refuse is refused besides.
func NewFilter(name string, p Profile, arch string, further ...Rule) (Filter, error) {
	program, err := Compile(p, arch, further...)
	if err != nil {
		return Filter{}, fmt.Errorf("%s: %w", name, err)
	}
	f := Filter{Profile: name, Program: program}
	for _, c := range candidates {
		nr, ok := Number(arch, c.call)
		if !ok {
			continue
		}
		answer := Action(program.Run(AuditArch(arch), uint64(nr), c.args))
		if e, ok := answer.Errno(); ok && e != 0 {
			f.Probes = append(f.Probes, Probe{Name: c.name, Nr: uintptr(nr), Args: c.args, Errno: int(e)})
		}
	}
	if len(f.Probes) == 0 {
		return Filter{}, fmt.Errorf("%s: seccomp: the program refuses no call that could be tried to prove it is installed", name)
	}
	return f, nil
}
