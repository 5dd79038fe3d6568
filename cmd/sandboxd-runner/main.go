// Command sandboxd-runner is the launcher and the worker of a sandbox. sandboxd starts it; it has no use by hand.
package main

import (
	"os"

	"github.com/sandboxd/sandboxd/runner"
)

func main() {
	os.Exit(runner.Main(os.Args))
}
