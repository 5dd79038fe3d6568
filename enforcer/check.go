package enforcer

import "github.com/sandboxd/sandboxd/policy"

// Check compares the state of a child at the gate with its plan. Every row must hold before the child is released.
func Check(p Plan, e Expect, s State) policy.Verdict { return policy.Verdict{} }

// CheckStarted compares once more after execve.
func CheckStarted(p Plan, e Expect, s State) policy.Verdict { return policy.Verdict{} }
