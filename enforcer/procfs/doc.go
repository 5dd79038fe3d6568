// Package procfs reads what /proc says of one process, strictly: a line that isn't understood is an error, and a missing line is never a zero.
//
// A [Process] is one open /proc/PID directory. Everything is opened below it (openat(2)), so that all of it is of one process: the kernel
// answers ESRCH there once that process is gone, even when its number has been given to another one.
//
// The parsers are pure and take the whole file; each has a fuzz target.
package procfs
