// The oracles live in a module of their own, so that gVisor and libseccomp never come near what is shipped.
module github.com/sandboxd/sandboxd/test/oracle

go 1.27

toolchain go1.27.3

replace github.com/sandboxd/sandboxd => ../..

require (
	github.com/sandboxd/sandboxd v0.0.0
	github.com/seccomp/libseccomp-golang v0.11.1
	gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
)

require (
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
