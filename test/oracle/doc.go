// Package oracle compares sandboxd's seccomp compiler with two that the field trusts: gVisor's pkg/seccomp and libseccomp, over all numbers,
// entries and argument boundaries. Where the answers differ on purpose the comparison says so (see expected).
//
// The libseccomp oracle is a small cgo program that the test builds and runs. It needs libseccomp's header; without it the test is skipped by
// name, or fails if SANDBOXD_REQUIRE_ORACLES=1.
package oracle

import "github.com/sandboxd/sandboxd/enforcer/seccomp"

// Question is what the libseccomp program is asked, one JSON value on its standard input.
type Question struct {
	Arch    string          `json:"arch"` // a GOARCH
	Profile seccomp.Profile `json:"profile"`
	// Tree asks for libseccomp's binary tree (SCMP_FLTATR_CTL_OPTIMIZE 2).
	Tree bool `json:"tree"`
	// Names asks for the numbers of system calls.
	Names []string `json:"names"`
}

// Answer is what it says, one JSON value on its standard output.
type Answer struct {
	Program seccomp.Program `json:"program"`
	// Unknown are calls of the profile that this libseccomp is too old for.
	Unknown []string `json:"unknown"`
	// Numbers of Names, as far as it knows them.
	Numbers map[string]int `json:"numbers"`
}
