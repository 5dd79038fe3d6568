//go:build !fault

package runner

import "syscall"

// fault is a point at which the build with the tag fault can end this process: see test/faults. This build goes on.
func fault(string) {}

// refusal is an error that the build with the tag fault gives in place of a call. This build makes the call.
func refusal(string) syscall.Errno { return 0 }

// faultEnv is what of the daemon's environment launcher and workers need for that: nothing.
func faultEnv() []string { return nil }
