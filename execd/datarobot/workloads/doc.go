// Package workloads is the façade that DataRobot's sandbox client meets: the workload API, as far as that client knows it, over sandboxd's own walk.
//
//	POST   /workloads/                  a container to run once ─▶ parse ─▶ image, maxima ─▶ Judge ─▶ on the disk ─▶ 201
//	                                                                                                    └▶ Admit ─▶ Exec ─▶ log, ending
//	GET    /workloads/{id}              provisioning, running, then how it ended
//	GET    /otel/workload/{id}/logs/    its output, once it has ended; the value is in the last entry
//	DELETE /workloads/{id}              killed, gone
//
// Each workload is one run of Python and is walked at most once: that it was taken is on the disk before anything of it runs, and a daemon that finds
// it there without an ending answers that it was lost, and never runs it again. Decisions are policy's, confinement and outcome the walk's; here are
// only shapes (create.go, ending.go, entries.go, status.go) and what a client that polls needs: that all is kept until it is deleted or has expired
// (workload.go, store.go).
//
// The value travels on the run's private channel. The marker line, in which the client looks for it, is written here when the process tree is gone, as
// the last entry: the client takes the last one, so that nothing the code has printed can stand in for it.
package workloads
