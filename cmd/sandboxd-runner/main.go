// The runtime isn't to look for a CPU limit in /sys/fs/cgroup and keep those files open: launchers and workers hardly compute, start often,
// and close what they didn't open themselves.

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command sandboxd-runner is the launcher and the worker of a sandbox. sandboxd starts it; it has no use by hand.
package main

import (
	"os"

	"github.com/sandboxd/sandboxd/runner"
)

func main() {
	os.Exit(runner.Main(os.Args))
}
