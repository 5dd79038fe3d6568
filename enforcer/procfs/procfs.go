// Package procfs reads what /proc says of one process, strictly: a line that isn't understood is an error, and a missing line is never a zero.
package procfs
