// Package fence makes, holds and reads back the part of a network that the kernel enforces: a network namespace with no way out but through
// sockets that the daemon owns.
//
// [AnyIP] is the plan of a sandbox's own namespace. It has no link but "lo", every address is local there, and one chain with policy drop hands
// each TCP connection to one listening socket, whatever address it was for. The sockets were made in that namespace and their descriptors passed
// out, so that who serves them lives outside: which socket accepted says which sandbox it was, and there is nothing to spoof. If the rules
// vanish there still is no way out, and if the routes vanish too there are no addresses.
//
//	in the sandbox                     kernel                                  the daemon
//	connect 93.184.216.34:443 ──▶ local route ──▶ lo ──▶ prerouting: tproxy ──▶ accept on :15001, getsockname is 93.184.216.34:443
//	sendto 8.8.8.8:53         ──▶ local route ──▶ lo ──▶ accept ──────────────▶ recvmsg on :53, answered from 8.8.8.8
//	sendto 8.8.8.8:443 (QUIC) ──▶ local route ──▶ lo ──▶ reject: ECONNREFUSED
//	sendto 224.0.0.251:5353   ──▶ no route: ENETUNREACH; by a device or from an address of its own: output: drop, EPERM
//
// [Pod] is the plan of a namespace that has a link and is shared with others: there the rules go by uid.
//
// A [Plan] is bytes: the netlink messages to send and the sockets to make. All sandboxes have the same. [Apply] sends and makes, in the namespace of
// the calling thread; [Hold] takes the descriptors over, on the daemon's side; [Fence.Observe] reads the namespace back through the netlink
// sockets among them, which works for root and, since whoever made a user namespace has every right in it, for an ordinary user; [Check] compares.
//
// Rules are compared as the raw bytes that the kernel dumps, without what it counts up itself: a parser that skips what it doesn't know would call a rule
// without its tproxy equal.
package fence
