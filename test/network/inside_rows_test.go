package network

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// family makes a socket, which is asked for by the numbers of socket(2), and connects it to a host.
	family = `
import socket, sys
try:
    s = socket.socket(*map(int, sys.argv[1:]))
    s.settimeout(3)
    s.connect(("45.9.1.10", 443))
    print("connected")
except OSError as e:
    print(type(e).__name__, e.errno)
`
	// option sets an option of a socket of TCP: family, level and name.
	option = `
import socket, sys
try:
    socket.socket(int(sys.argv[1])).setsockopt(int(sys.argv[2]), int(sys.argv[3]), 1)
    print("set")
except OSError as e:
    print(type(e).__name__, e.errno)
`
	// bound connects by a device, which takes no privilege: DEVICE HOST PORT.
	bound = `
import socket, sys
s = socket.socket()
try:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[1].encode())
    s.connect((sys.argv[2], int(sys.argv[3])))
    s.sendall(b"x")
    print("answer", s.recv(200))
except OSError as e:
    print(type(e).__name__, e.errno)
`
	// local connects to a unix socket; @ begins an abstract name.
	local = `
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1].replace("@", "\0"))
    print("connected")
except OSError as e:
    print(type(e).__name__, e.errno)
`
	notPermitted = `^PermissionError 1 exit 0$`
	noSuchFamily = `^OSError 97 exit 0$`
)

func numbers(values ...int) (texts []string) {
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value))
	}
	return texts
}

// insideRows are what the confinement of a program refuses beside the fence. SOCKET is the daemon's.
var insideRows = []row{
	{"D31", "a raw socket", "default allow", python(family, numbers(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)...), notPermitted, ``, nil},
	{"D31", "a raw socket of IPv6", "default allow", python(family, numbers(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)...), notPermitted, ``, nil},
	{"D31", "a socket for pings", "default allow", python(family, numbers(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)...), `^PermissionError 13 exit 0$`, ``, nil},
	// Where the kernel has it, the fence refuses it.
	{"D31", "SCTP", "default allow", python(family, numbers(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)...), `^(OSError 93|ConnectionRefusedError 111) exit 0$`, ``, nil},
	{"D31", "packets", "default allow", python(family, numbers(unix.AF_PACKET, unix.SOCK_RAW, 0)...), noSuchFamily, ``, nil},
	{"D31", "the host of a virtual machine", "default allow", python(family, numbers(unix.AF_VSOCK, unix.SOCK_STREAM, 0)...), noSuchFamily, ``, nil},
	{"D37", "a mark", "default allow", python(option, numbers(unix.AF_INET, unix.SOL_SOCKET, unix.SO_MARK)...), notPermitted, ``, nil},
	{"D37", "a transparent socket", "default allow", python(option, numbers(unix.AF_INET, unix.SOL_IP, unix.IP_TRANSPARENT)...), notPermitted, ``, nil},
	{"D37", "a transparent socket of IPv6", "default allow", python(option, numbers(unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_TRANSPARENT)...), notPermitted, ``, nil},
	{"D37", "by a device", "allow a.example.net", python(bound, "lo", Public.String(), "443"), refused, `relay: denied 45.9.1.10:443: no rule allows it (rule -1)`, nil},
	{"D38", "the daemon's own socket", "default allow", python(local, "SOCKET"), `^FileNotFoundError 2 exit 0$`, ``, nil},
	{"D38", "an abstract one of the host", "default allow", python(local, "ABSTRACT"), `^ConnectionRefusedError 111 exit 0$`, ``, nil},
}
