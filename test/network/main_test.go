package network

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(goClient) != "" {
		os.Exit(runGoClient(os.Args[1:]))
	}
	os.Exit(Main(m))
}
