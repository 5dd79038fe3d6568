package network

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(goClient) != "" {
		os.Exit(runGoClient(os.Args[1:]))
	}
	code := Main(m)
	if programsDir != "" {
		os.RemoveAll(programsDir)
	}
	os.Exit(code)
}
