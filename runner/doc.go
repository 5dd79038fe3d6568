// Package runner is both ends of the launcher's sockets: the daemon's ([Sandbox], [Child]) and the launcher's and worker's (RunLauncher,
// RunWorker). The launcher decides nothing.
//
// # Who is who
//
//	daemon ── launcher socket (SEQPACKET) ── launcher, PID 1 of the sandbox: makes the root, starts workers, reaps; ends when the socket does
//	   │ ────── worker socket (SEQPACKET) ── worker: one exec at a time; vforks the child, waits for it, is its subreaper and shepherd
//	   └──────── gate (SEQPACKET, per exec) ── child: walks a table of raw system calls, stops at the gate, executes the target
//
// # One exec
//
//	daemon                          worker                         child
//	plan, invocation, fds ────────▶ table of steps
//	TARGET ◀─────────────────────── what argv[0] and cwd are, or FAILED
//	                                clone3(VM|VFORK|PIDFD|…) ─────▶ BORN                          step 1
//	pidfd from SO_PASSPIDFD ◀────────────────────────────────────── …
//	{step, errno}: a step failed; the child is dead ◀────────────── or
//	READY ◀──────────────────────────────────────────────────────── READY, count of steps walked
//	Observe, Check, record, fsync
//	one byte ─────────────────────────────────────────────────────▶ sigprocmask, execve
//	end of file on the gate ◀────────────────────────────────────── (close-on-exec)
//	Observe, Check once more
//	                                wait4 ◀──────────────────────── exits
//	EXIT {wait status, rusage} ◀───
//	cgroup.kill, populated 0 …      or kill(-1, SIGKILL) in the shepherd's Landlock domain, wait4(-1, __WALL) to ECHILD
//	EMPTY {reaped} ◀───────────────                                 in one packet with EXIT where nobody else was left
//
// Closing the gate kills the child at it. Every wait of the daemon has a bound, enforced by pidfd and SIGKILL.
package runner
