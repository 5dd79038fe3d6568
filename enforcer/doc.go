// Package enforcer makes a decision concrete and checks that it holds.
//
//	ProbeHost ─▶ Host ┐
//	     policy.Decision ├─ BuildSandbox ─▶ SandboxPlan ─ launcher makes it ─▶ ObserveSandbox ─▶ CheckSandbox ─▶ policy.Verdict
//	                     └─ Build ─▶ Plan ─ child walks it to the gate ─▶ Observe ─▶ Check ─▶ policy.Verdict
//
// Build and Check are pure. Observe reads the kernel and nothing else: what we wrote is never evidence of what is.
// Each mechanism has a package of its own below this one; they know no policy and not each other.
package enforcer
