package enforcer

import (
	"strconv"

	"github.com/sandboxd/sandboxd/policy"
)

// Terminal is a terminal as the kernel names it.
type Terminal struct {
	// Number is tty_nr of /proc/PID/stat, the device's number as the kernel packs it (proc_pid_stat(5)); 0: none.
	Number int `json:"number"`
	// File is "major:minor:inode" of its file: of two terminals with one number, in two instances of devpts, it says which. Empty where the daemon may not
	// look at descriptors ([Host].Opaque).
	File string `json:"file"`
}

// terminalPrivate is the lack of a place for terminals that is nobody else's.
const terminalPrivate = "terminal.private"

// AtTerminal is the plan for a program that has a terminal. It is one of an instance of devpts that was made for it alone: no name leads there, and nothing
// of the host's is in it. Where that can't be made it is one of those that the daemon's own /dev/ptmx gives, if accept has the lack's name.
func (p Plan) AtTerminal(h Host, accept []string) (Plan, error) {
	p.Terminal = true
	if h.Terminals {
		return p, nil
	}
	b := &builder{decision: policy.Decision{Accept: accept}, plan: p.clone()}
	err := b.lack(terminalPrivate, "command.terminal", "this daemon may not mount devpts, so that a terminal would be one among those of the machine or container it runs in",
		"run it as root, or accept "+terminalPrivate)
	return b.plan, err
}

// terminal is that the child's session is controlled by the terminal that was made for it, and that its standard input is that very file. What a plan
// without one has in its state is a mistake.
func (t *table) terminal(p Plan, e Expect, s State) {
	if !p.Terminal {
		if s.Terminal != (Terminal{}) {
			t.equal("terminal", "none", s.Terminal.String())
		}
		return
	}
	t.add("terminal", policy.EvidenceKernel, e.Terminal.device(), s.Terminal.device(), e.Terminal.Number != 0 && e.Terminal.Number == s.Terminal.Number)
	if s.Opaque {
		t.reported(e, "terminal.file")
		return
	}
	t.add("terminal.file", policy.EvidenceKernel, e.Terminal.File, s.Terminal.File, e.Terminal.File != "" && e.Terminal.File == s.Terminal.File)
}

// device is the number as major:minor.
func (t Terminal) device() string {
	if t.Number == 0 {
		return "none"
	}
	return strconv.Itoa(t.Number>>8&0xfff) + ":" + strconv.Itoa(t.Number&0xff|t.Number>>12&0xfff00)
}

func (t Terminal) String() string { return t.device() + " " + t.File }
