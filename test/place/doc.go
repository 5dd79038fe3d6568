// Package place is sandboxd where it doesn't start its launcher: beside a container whose entry process the launcher is, as in a pod. The tests stand in
// for the pod: a network namespace that daemon and launcher share, a mount namespace that is the launcher's alone, a uid for each, and no capability but
// those that the tier has. They run the real programs.
//
// The tests need root, to be several users, and ip(8), nsenter(1), unshare(1) and setpriv(1).
package place
