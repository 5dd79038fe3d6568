//go:build !sabotage

package runner

import "github.com/sandboxd/sandboxd/enforcer/network/fence"

// sabotage leaves the table as it is. The build with the tag sabotage is for the tests that show that a missing step is noticed.
func sabotage(steps []Step) []Step { return steps }

// sabotageFence leaves the fence as planned.
func sabotageFence(plan fence.Plan) fence.Plan { return plan }

// sabotaged says whether the worker leaves out what it does once for all its children.
func sabotaged(string) bool { return false }

// sabotageEnv is what of the daemon's environment a worker needs: nothing.
func sabotageEnv() []string { return nil }
