package dropin

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// exitOurs is the status of failures of ours: nothing of the program ran, or what it did isn't known.
const exitOurs = 125

const usage = `usage: sandboxd-runner python [--strict] [INTERPRETER]

Runs the program in DR_SANDBOX_CODE_B64 with the inputs in DR_SANDBOX_INPUTS_B64. --strict starts nothing where a part of the confinement
can't be put in force. docs/datarobot.md has the contract.
`

// Main is `sandboxd-runner python`: args are what follows. It returns the exit status.
func Main(args []string) int {
	if len(args) > 2 && args[0] == confinedStage {
		return confined(args[1:])
	}
	strict := len(args) > 0 && args[0] == "--strict"
	if strict {
		args = args[1:]
	}
	interpreter := "python3"
	switch {
	case len(args) == 1 && !strings.HasPrefix(args[0], "-"):
		interpreter = args[0]
	case len(args) > 0:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	// Nobody of this uid, the program least of all, reads or traces the one who decides.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return ours(err)
	}
	wanted, err := readContract(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &supervisor{contract: wanted, strict: strict}
	if err := s.start(interpreter); err != nil {
		s.killTree()
		return ours(err)
	}
	return s.finish()
}

func ours(err error) int {
	fmt.Fprintf(os.Stderr, "sandboxd-runner: %v\n", err)
	return exitOurs
}
