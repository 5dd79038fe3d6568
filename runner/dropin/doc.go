// Package dropin is the runner contract of DataRobot's sandbox as an image's own entry point: program and inputs in the environment, the value in
// a marker line behind all other output.
//
//	sandboxd-runner python               supervisor: reads the contract, keeps the clock, writes the marker
//	  └─ sandboxd-runner python --confined   confines itself, executes the interpreter
//	       └─ python3                    waits for its job; gets it when the supervisor has read the confinement back
//
// It has one process more than the reference, and that is the point: clock, marker and the end of the tree are not the interpreter's, whose code can
// do to it what it wants. There is no daemon behind it, no policy, no record and no privilege, and it claims no more than [Held] lists: no_new_privs, no
// capability, the RuntimeDefault filter, and where the kernel has Landlock, no writing but beneath a few directories and no signal to the supervisor.
// Root, network and namespaces are those of the container that it is started in.
package dropin
