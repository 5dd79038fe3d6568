package landlock

import "golang.org/x/sys/unix"

// generation is what one ABI of Landlock added (landlock(7), VERSIONS; Documentation/userspace-api/landlock.rst).
type generation struct {
	abi             int
	fs, net, scoped uint64
}

var generations = []generation{
	{abi: 1, fs: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
	{abi: 2, fs: unix.LANDLOCK_ACCESS_FS_REFER},
	// Before this one, truncate(2) empties a file that may not be written.
	{abi: 3, fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{abi: 4, net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP},
	{abi: 5, fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	{abi: 6, scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
	// 7 (audit) and 8 (all threads) added no right.
	{abi: 9, fs: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
	{abi: 10, net: unix.LANDLOCK_ACCESS_NET_BIND_UDP | unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP},
}

// Rights that rules of a sandbox grant. [For] takes away what its ABI doesn't know.
const (
	// Read is reading files and directories and executing files.
	Read = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// Write is Read and everything done to regular files, directories, links, sockets and FIFOs; never device files.
	Write = Read | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	// Device is reading and writing one device file, and no ioctl on it.
	Device = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
)

// file are the rights that a rule on something other than a directory can have; the kernel answers EINVAL to others.
const file = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX

// For is the ruleset of an ABI with these rules. Rights that the ABI doesn't know are taken out of the rules: the kernel would refuse
// them, and it doesn't restrict them. The zero ABI handles nothing.
func For(abi int, paths []PathRule, ports []PortRule) Ruleset {
	r := Ruleset{ABI: abi}
	for _, g := range generations {
		if g.abi <= abi {
			r.HandledFS |= g.fs
			r.HandledNet |= g.net
			r.Scoped |= g.scoped
		}
	}
	for _, rule := range paths {
		if rule.Access &= r.HandledFS; rule.Access != 0 {
			r.Paths = append(r.Paths, rule)
		}
	}
	for _, rule := range ports {
		if rule.Access &= r.HandledNet; rule.Access != 0 {
			r.Ports = append(r.Ports, rule)
		}
	}
	return r
}
