package runner

import (
	"encoding/json/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain makes the test program its own launcher and worker: [OpenBinary] of it is what sandboxes in tests run. A worker whose first message
// is a list of acts is a test's hand inside of the sandbox; any other is a real one. With "daemon" it is a daemon that the test will kill.
func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == Name && len(os.Args) == 2 && os.Args[1] == "worker":
		if acts, ok := askedActs(); ok {
			os.Exit(perform(acts))
		}
		os.Exit(Main(os.Args))
	case os.Args[0] == Name:
		os.Exit(Main(os.Args))
	case os.Args[0] == daemonName:
		os.Exit(doomedDaemon())
	}
	os.Exit(m.Run())
}

// askedActs looks at the first message without taking it.
func askedActs() (askedTo, bool) {
	buffer := make([]byte, maxPacket)
	n, _, err := unix.Recvfrom(workerSocket, buffer, unix.MSG_PEEK)
	var asked askedTo
	if err != nil || n == 0 || json.Unmarshal(buffer[:n], &asked) != nil || len(asked.Acts) == 0 {
		return asked, false
	}
	_, _, err = unix.Recvfrom(workerSocket, buffer, 0)
	return asked, err == nil
}
