//go:build !fault

package runner

// fault is a point at which the build with the tag fault can end this process: see test/faults. This build goes on.
func fault(string) {}

// faultEnv is what of the daemon's environment launcher and workers need for that: nothing.
func faultEnv() []string { return nil }
