package seccomp

import (
	"fmt"
	"syscall"
)

// Action is what the kernel does with a call: SECCOMP_RET_* in the upper half, its data (an errno) in the lower.
type Action uint32

// The actions, strictest first. User notification is none that a profile can ask for: [Filter.Explaining] and [Filter.Observing] put it in, for the
// one supervisor that answers it.
const (
	KillProcess Action = 0x80000000
	KillThread  Action = 0x00000000
	Trap        Action = 0x00030000
	errno       Action = 0x00050000
	notify      Action = 0x7fc00000
	trace       Action = 0x7ff00000
	Log         Action = 0x7ffc0000
	Allow       Action = 0x7fff0000
)

// maxErrno is the kernel's MAX_ERRNO: larger data are cut to it.
const maxErrno = 4095

// Errno fails the call with e.
func Errno(e syscall.Errno) Action { return errno | Action(e&0xffff) }

// class is the order of seccomp(2): "the first-seen action value of highest precedence"; as signed numbers, lower is stricter.
func (a Action) class() int32 { return int32(a & 0xffff0000) }

// permits says whether the call goes through.
func (a Action) permits() bool { return a.class() >= Log.class() }

// Errno is the errno that the caller sees, and whether the action is one that fails the call with an errno.
func (a Action) Errno() (syscall.Errno, bool) {
	return syscall.Errno(a & 0xffff), a.class() == errno.class()
}

func (a Action) String() string {
	switch a & 0xffff0000 {
	case KillProcess:
		return "kill process"
	case KillThread:
		return "kill thread"
	case Trap:
		return "trap"
	case errno:
		return fmt.Sprintf("errno %d", uint16(a))
	case notify:
		return "notify"
	case trace:
		return fmt.Sprintf("trace %d", uint16(a))
	case Log:
		return "log"
	case Allow:
		return "allow"
	}
	return fmt.Sprintf("action %#x", uint32(a))
}
