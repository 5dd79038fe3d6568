// Package execd is the daemon's face: it takes requests, walks each to its end and answers, keeps sandboxes, and records all of it.
//
//	socket ─Listen─▶ who is it? ─Handler─▶ queue ─▶ Exec ─▶ Reply
//
// [Service.Exec] is the walk, one arrow a line (exec.go). Whatever goes wrong on an arrow is a no (ending.go, refusal.go), and each ending is one
// of the outcomes (outcome.go):
//
//	Decide ─▶ Build ─▶ Prepare ─▶ Observe, Check ─▶ record, fsynced ─▶ Release ─▶ Observe, Check ─▶ Wait ─▶ record ─▶ Reply
//	  │         │         │             │                                              │             │
//	denied    denied   not_started   mismatch                                       mismatch      ok, error, signaled, timeout,
//	                   mismatch                                                                   oom, output_limit, cancelled
//
// A sandbox is for one exec and comes from a pool of fresh ones (pool.go), or a caller makes and deletes it (kept.go). The HTTP API is
// described by openapi.json, which a test compares with the routes and types. [New] and [Service.Close] are the ends of a daemon's life: what
// one that died has left is settled in the record before the next begins (history.go).
package execd
