package runner

import (
	"github.com/sandboxd/sandboxd/runner/dropin"
	"github.com/sandboxd/sandboxd/runner/file"
)

// modes are what this binary does inside of a sandbox as the target of an exec, confined like any other, by the first argument. Each gets the
// arguments after it and gives the exit status. It acts for the daemon where the daemon may not act itself: on names that others in the sandbox
// can change under it.
var modes = map[string]func(args []string) int{
	"file":    file.Main,
	"python":  dropin.Main, // no target of ours: an image's own entry point
	ProbeMode: probeMode,
}
