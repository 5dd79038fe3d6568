// Package events tells Kubernetes what sandboxd denied, and what wasn't as it must be, as Events about the pod (events.k8s.io/v1), for those who look there
// first. It says what the audit log says, later and in short: the log is the record, and nothing waits for an event.
//
//	records of the log ──▶ queue (bounded; what doesn't fit is counted) ──▶ series (one for each reason and rule) ──▶ API server (a bucket of requests)
//
// Whoever can be denied can't flood the API server: the same denial again is a count in a series, which is sent at most once in [Options].SeriesEvery; different
// ones are bounded by how many rules there are, and by mostSeries; and all requests together by a bucket. What an event says is policy's own words, cut to what
// the API takes, without control characters; never what a request had in it as command, environment or code.
//
// The client is the standard library's. It reads the projected token for each request, since the kubelet replaces it, and the authority when it changed.
package events
