package execd

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// Attach says where launchers come from that somebody else starts, one at a time: a pod's runner beside a sidecar. Nothing is made then; what is there is
// read, and is the daemon's one sandbox if it is fit to be.
type Attach struct {
	// Socket is the path of the SOCK_SEQPACKET socket on which a launcher connects. It is there only while there is no launcher.
	Socket string
	// UID is whose process a launcher must be, by the kernel's word. One that is the daemon's own is said in every verdict.
	UID int
	// Writable are directories of the launcher's file system that execs may write to; none: those of [enforcer.DefaultWritable] that are mounts there.
	Writable []string
	// ProxyPort is the port of the loopback on which the relay serves as a proxy, where there is no fence; 0: nothing is let out there.
	ProxyPort int
	// FenceUIDs are other uids that may send to the network past the fence, and FencePorts the TCP ports that may be connected to from outside: those of
	// other containers of the pod. The daemon's own uid is among the first without being named.
	FenceUIDs  []int
	FencePorts []int
}

// on says that launchers connect.
func (a Attach) on() bool { return a.Socket != "" }

// checkAttach names every field that can't be, or that means nothing beside others.
func (c Config) checkAttach() error {
	a := c.Attach
	var wrong []error
	refuse := func(format string, values ...any) { wrong = append(wrong, fmt.Errorf("config: "+format, values...)) }
	if !a.on() {
		if a.UID != 0 || a.ProxyPort != 0 || len(a.Writable)+len(a.FenceUIDs)+len(a.FencePorts) > 0 {
			refuse("Attach: without Socket the daemon makes its sandboxes itself; want the path of the launcher's socket, or none of the other fields")
		}
		return errors.Join(wrong...)
	}
	if !filepath.IsAbs(a.Socket) {
		refuse("Attach.Socket: %q: want an absolute path", a.Socket)
	}
	if a.UID < 1 || a.UID > math.MaxInt32 {
		refuse("Attach.UID: %d: want the uid of the launcher, 1..%d; not root's, which nothing confines without capabilities of ours", a.UID, math.MaxInt32)
	}
	for _, path := range a.Writable {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
			refuse("Attach.Writable: %q: want the absolute path of a directory in the launcher's container, not its root", path)
		}
	}
	for _, port := range append([]int{max(a.ProxyPort, 1)}, a.FencePorts...) {
		if port < 1 || port > math.MaxUint16 {
			refuse("Attach: port %d: want 1..65535", port)
		}
	}
	if a.ProxyPort < 0 {
		refuse("Attach.ProxyPort: %d: want 0..65535", a.ProxyPort)
	}
	for _, uid := range a.FenceUIDs {
		if uid < 0 || uid > math.MaxInt32 || uid == a.UID {
			refuse("Attach.FenceUIDs: %d: want another uid than the launcher's, 0..%d", uid, math.MaxInt32)
		}
	}
	if len(c.Prewarm) > 0 {
		refuse("Prewarm: interpreters aren't started ahead in a sandbox that all execs share; leave it out")
	}
	if len(c.Show) > 0 {
		refuse("Show: the container's file system is not ours to show things in; mount them there")
	}
	return errors.Join(wrong...)
}

// podFence is the fence by uid that is to be held where the daemon may hold one.
func (a Attach) podFence(ipv6, persist bool) (fence.Plan, error) {
	spec := fence.PodSpec{Runner: []uint32{uint32(a.UID)}, Allowed: []uint32{uint32(os.Geteuid())}, IPv6: ipv6, Persist: persist}
	for _, uid := range a.FenceUIDs {
		if !slices.Contains(spec.Allowed, uint32(uid)) {
			spec.Allowed = append(spec.Allowed, uint32(uid))
		}
	}
	for _, port := range a.FencePorts {
		spec.Ports = append(spec.Ports, uint16(port))
	}
	return fence.Pod(spec)
}

// spec is what a launcher that connects is to be.
func (a Attach) spec(held fence.Plan) enforcer.AttachedSpec {
	spec := enforcer.AttachedSpec{UID: a.UID, Writable: a.Writable, Fence: held}
	if held.Variant == fence.VariantProxy {
		spec.ProxyPort = uint16(a.ProxyPort)
	}
	return spec
}
