// Package network is a network for tests, whole in a network namespace of its own: name server, hosts, certificates, and nobody else. No link leads
// out of it, so that whatever a test dials is ours or isn't there.
//
// [Main] in a package's TestMain runs its tests in such a namespace; [New] puts the hosts there. The hosts' addresses look like anybody's, since it is
// the classes of addresses that are tested:
//
//	45.9.1.0/24, 2a09:1::/64    public ones
//	10.9.0.1                    a private one
//	169.254.169.254             where clouds have their metadata
//
// What a test starts, the daemon too, lives in this namespace and finds the hosts there; sandboxes have namespaces of their own beneath it.
package network
