package runner

import (
	"os"
	"testing"
)

// TestMain makes the test program its own launcher and worker: [OpenBinary] of it is what sandboxes in tests run.
func TestMain(m *testing.M) {
	if os.Args[0] == Name {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}
