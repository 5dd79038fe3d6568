# Runs inside the sandbox: tries what must not work. Each act is made for real by the probe program, and its answer is the kernel's.
# One line each: what it was, a tab, the answer as JSON.
probe=$1
shown=$(dirname "$probe")
try() {
	printf '%s\t' "$1"
	shift
	"$probe" "$@" </dev/null 2>&1
}
try 'write to the root'                       write /escaped
try 'write over a system program'             write /usr/bin/env
try 'truncate a file that all may write'      truncate "$shown/writable"
if [ -e "$shown/secret" ]; then
	try "read another user's file"                open "$shown/secret"
fi
try 'read the machine'\''s password hashes'   open /etc/shadow
try 'make a device of the disk'               mknod /tmp/disk
try 'mount a file system'                     mount /tmp
try 'make the root writable again'            remount /
try 'trace the launcher'                      ptrace 1
try 'kill the launcher'                       kill 1 9
try 'kill outside: a process of the host'     kill "$2" 9
try 'make a user namespace (unshare)'         unshare
try 'the same, flags hidden from the filter'  clone3
try 'become root'                             setuid
try 'open a raw socket'                       socket raw
try 'open a socket to the hypervisor'         socket vsock
try 'connect out'                             connect 192.0.2.1:80
try 'enter the kernel as a 32-bit program'    i386
try 'enter the kernel as an x32 program'      x32
try 'leave a secret in the kernel (keyctl)'   keyctl
try 'go round the filter by io_uring'         io-uring
try 'load a BPF program'"'"'s map'            bpf
try 'change core_pattern'                     sysctl
