// Package faults breaks what sandboxd stands on, while it works: the daemon, its launchers and workers are killed at every step, the disk under
// the log is full or broken, descriptors, processes and patience run out, clients misbehave. After every fault nothing runs on and nothing is
// left, the log verifies, and the daemon goes on or starts again.
//
// The tests run the real binaries. Where a fault must hit one step, they are built with the tag fault, which adds that alone.
//
// SANDBOXD_LEAK_EXECS=20000 looks for leaks over so many execs; it is 1,500 unless set.
package faults
