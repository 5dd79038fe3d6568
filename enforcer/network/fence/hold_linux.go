package fence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Fence is a fence that is held from outside by its sockets. Its methods may be called at the same time.
type Fence struct {
	plan Plan

	// asking orders what is asked on the netlink sockets: one question at a time. It guards admitted too, which is what the sets have.
	asking   sync.Mutex
	admitted Reach

	// mu guards the rest.
	mu sync.Mutex
	// files are the sockets in the plan's order. What has been handed out has a descriptor of its own.
	files  []*os.File
	served *Sockets
	closed bool
}

// Sockets are those to be served. The fence closes them, with [Fence.Close]; who serves them may do so before.
type Sockets struct {
	// Relay accept what the programs inside connect to, IPv4 and IPv6. [Destination] or [OriginalDestination] says where they wanted to.
	Relay []*net.TCPListener
	// Names and NamesTCP are for port 53, whatever address a question was sent to. Answers on Names must come from that address (IP_PKTINFO).
	Names    []*net.UDPConn
	NamesTCP []*net.TCPListener
	// Datagrams are what datagrams come to that the fence lets through, IPv4 and IPv6; what they say beside the data is where they were for
	// ([DatagramDestination]). There are none where the plan has none.
	Datagrams []*net.UDPConn
}

// Hold takes descriptors that [Apply] gave, perhaps in another process. They are its own from here on, whether it succeeds or not.
func Hold(p Plan, fds []int) (*Fence, error) {
	if len(fds) != len(p.Sockets) {
		closeAll(fds)
		return nil, fmt.Errorf("fence: %d descriptors for %d sockets", len(fds), len(p.Sockets))
	}
	f := &Fence{plan: p}
	for i, s := range p.Sockets {
		f.files = append(f.files, os.NewFile(uintptr(fds[i]), s.Name))
	}
	return f, nil
}

// Plan is what the fence was made from.
func (f *Fence) Plan() Plan { return f.plan }

// errClosed is what a fence that is closed says.
var errClosed = fmt.Errorf("fence: %w", os.ErrClosed)

// Open has the relay's sockets listen and binds those for names, and hands them out. Until then, whatever the programs inside connect to or ask is
// refused at once. It can be called once.
func (f *Fence) Open() (*Sockets, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	if f.served != nil {
		return nil, errors.New("fence: its sockets have been handed out")
	}
	f.served = &Sockets{}
	if err := f.bindRefused(); err != nil {
		f.close()
		return nil, err
	}
	for i, s := range f.plan.Sockets {
		if s.Domain == unix.AF_NETLINK || s.Type == unix.SOCK_RAW {
			continue
		}
		if err := f.serve(i, s); err != nil {
			f.close()
			return nil, err
		}
	}
	return f.served, nil
}

// serve makes one socket a listener of package net, which has a descriptor of its own.
func (f *Fence) serve(i int, s Socket) error {
	var ready error
	err := control(f.files[i], func(fd int) {
		if s.Type == unix.SOCK_STREAM {
			ready = os.NewSyscallError("listen", unix.Listen(fd, unix.SOMAXCONN))
		} else {
			ready = s.bind(fd)
		}
	})
	if err := errors.Join(err, ready); err != nil {
		return fmt.Errorf("fence: socket %s: %w", s.Name, err)
	}
	if s.Type == unix.SOCK_STREAM {
		listener, err := net.FileListener(f.files[i])
		if err != nil {
			return fmt.Errorf("fence: socket %s: %w", s.Name, err)
		}
		into := &f.served.Relay
		if s.Name == socketNamesTCP || s.Name == socketNamesTCP6 {
			into = &f.served.NamesTCP
		}
		*into = append(*into, listener.(*net.TCPListener))
	} else {
		conn, err := net.FilePacketConn(f.files[i])
		if err != nil {
			return fmt.Errorf("fence: socket %s: %w", s.Name, err)
		}
		into := &f.served.Names
		if s.Name == socketDatagrams4 || s.Name == socketDatagrams6 {
			into = &f.served.Datagrams
		}
		*into = append(*into, conn.(*net.UDPConn))
	}
	return nil
}

// Shut denies everything, for good: no connection and no question is taken any more, and what isn't accepted yet is reset. What has been accepted
// is its server's to end. The relay's port stays ours.
func (f *Fence) Shut() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	var all []error
	for i, s := range f.plan.Sockets {
		if s.Domain == unix.AF_NETLINK || s.Type == unix.SOCK_RAW {
			continue
		}
		all = append(all, control(f.files[i], func(fd int) {
			// ENOTCONN: it doesn't listen.
			if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil && !errors.Is(err, unix.ENOTCONN) {
				all = append(all, os.NewSyscallError("shutdown", err))
			}
		}))
	}
	if f.served == nil { // a later Open must not undo this
		f.served = &Sockets{}
	}
	for _, conn := range slices.Concat(f.served.Names, f.served.Datagrams) {
		_ = conn.Close() // whoever serves it may have closed it
	}
	for i, s := range f.plan.Sockets {
		if s.Type == unix.SOCK_DGRAM {
			f.files[i].Close() // the last of it: nobody has the port now, and a question is refused
		}
	}
	return errors.Join(all...)
}

// Repair sends the plan once more, after taking every rule away that is there: nobody else has rules in a namespace of ours. In a pod the namespace is
// shared, and only our own table is replaced. Foreign links, addresses and routes stay, and in a pod foreign rules, so that whoever called it must look
// again, and [Fence.Shut] the fence if it still isn't as planned.
func (f *Fence) Repair() error {
	p := f.plan
	switch p.Variant {
	case VariantPod: // replacing is how it is sent
	case VariantAnyIP:
		begin := (int(native.Uint32(p.Netfilter)) + 3) &^ 3 // the message that begins the transaction
		p.Netfilter = append(append(append([]byte{}, p.Netfilter[:begin]...), flushRuleset()...), p.Netfilter[begin:]...)
	default:
		return errors.New("fence: repair: there are no rules to send again")
	}
	f.asking.Lock()
	defer f.asking.Unlock()
	return f.onNetlink(func(netfilter, route int) error {
		fds := make([]int, len(p.Sockets))
		fds[p.socket(socketNetfilter)], fds[p.socket(socketRoute)] = netfilter, route
		if err := send(p, fds); err != nil || !p.hasReach() {
			return err
		}
		return f.sendReach(netfilter, f.admitted) // until then nothing comes to the relay
	})
}

// Admit has what is in reach come to the relay, and refuses all else at once, in one step. It decides nothing: the
// relay judges what comes. What was accepted before and is let through no more is reset. Where the plan has no sets, everything comes to the relay.
func (f *Fence) Admit(r Reach) error {
	if !f.plan.hasReach() {
		return nil
	}
	f.asking.Lock()
	defer f.asking.Unlock()
	if f.admitted.equal(r) {
		return nil
	}
	err := f.onNetlink(func(netfilter, _ int) error { return f.sendReach(netfilter, r) })
	if err == nil {
		f.admitted = Reach{slices.Clone(r.Ranges), r.Datagrams}
	}
	return err
}

// sendReach replaces the elements of the sets. The caller holds asking.
func (f *Fence) sendReach(netfilter int, r Reach) error {
	var parts [][]byte
	elements := r.elements()
	for _, set := range setNames {
		parts = append(parts, flushSet(set))
		if len(elements[set]) > 0 {
			parts = append(parts, addElements(set, elements[set]))
		}
	}
	if err := ask(netfilter, transaction(parts...)); err != nil {
		return fmt.Errorf("fence: sets: %w", err)
	}
	return nil
}

// onNetlink lends the two sockets that questions are asked on. The caller holds asking.
func (f *Fence) onNetlink(do func(netfilter, route int) error) error {
	netfilter, route := f.plan.socket(socketNetfilter), f.plan.socket(socketRoute)
	if netfilter < 0 || route < 0 {
		return errors.New("fence: the plan has no netlink sockets")
	}
	var err error
	outer := control(f.files[netfilter], func(netfilter int) {
		inner := control(f.files[route], func(route int) { err = do(netfilter, route) })
		err = errors.Join(err, inner)
	})
	return errors.Join(err, outer)
}

// control lends a file's descriptor; os.File.Fd would make it blocking again.
func control(file *os.File, do func(fd int)) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { do(int(fd)) })
}

// Watch calls changed whenever somebody else has changed links, addresses, routes or rules, or may have: the kernel drops notices that nobody takes in time,
// and says so. It returns when ctx ends or the fence is closed. What Admit and Repair do to rules and sets isn't news: the kernel says whose socket asked.
func (f *Fence) Watch(ctx context.Context, changed func()) error {
	if f.plan.Variant == VariantProxy {
		return nil // there is nothing that the kernel would tell of
	}
	var watchers sync.WaitGroup
	var errs [2]error
	for i, name := range []string{socketWatchRoute, socketWatchNetfilter} {
		at := f.plan.socket(name)
		if at < 0 {
			return errors.New("fence: the plan has no sockets to watch with")
		}
		own := uint32(0)
		if name == socketWatchNetfilter {
			own = f.netfilterPort()
		}
		watchers.Go(func() { errs[i] = f.watch(ctx, f.files[at], own, changed) })
	}
	watchers.Wait()
	return errors.Join(errs[:]...)
}

// netfilterPort is the netlink port of the socket that rules and sets are changed by; 0, which is the kernel's own, when it has none. No other socket of the
// namespace has it while ours is open.
func (f *Fence) netfilterPort() (port uint32) {
	_ = control(f.files[f.plan.socket(socketNetfilter)], func(fd int) {
		address, err := unix.Getsockname(fd)
		if netlink, ok := address.(*unix.SockaddrNetlink); ok && err == nil {
			port = netlink.Pid
		}
	})
	return port
}

// watch is Watch on one socket. What the port own has asked for isn't told; 0: everything is.
func (f *Fence) watch(ctx context.Context, file *os.File, own uint32, changed func()) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		noticed, err := notices(raw, own)
		switch {
		case ctx.Err() != nil, err != nil && f.isClosed():
			return nil
		case err != nil:
			return fmt.Errorf("fence: watch: %w", err)
		}
		if noticed {
			changed()
		}
	}
}

// notices waits for a notice, and takes all that have come by then.
func notices(raw syscall.RawConn, own uint32) (noticed bool, err error) {
	buffer := make([]byte, 8<<10)
	waitErr := raw.Read(func(fd uintptr) bool {
		for {
			n, _, received := unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
			switch {
			case errors.Is(received, unix.EINTR):
			case errors.Is(received, unix.EAGAIN):
				return noticed
			case received == nil:
				all := messages(buffer[:n])
				noticed = noticed || own == 0 || len(all) == 0 || slices.ContainsFunc(all, func(m nlMessage) bool { return m.port != own })
			case errors.Is(received, unix.ENOBUFS):
				noticed = true
			default:
				err = received
				return true
			}
		}
	})
	return noticed, errors.Join(waitErr, err)
}

func (f *Fence) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Close closes every socket, those that were handed out as well. Connections that were accepted stay their owners'.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
}

func (f *Fence) close() {
	f.closed = true
	for _, file := range f.files {
		file.Close()
	}
	if f.served == nil {
		return
	}
	for _, l := range append(append([]*net.TCPListener{}, f.served.Relay...), f.served.NamesTCP...) {
		_ = l.Close() // whoever serves it may have
	}
	for _, c := range slices.Concat(f.served.Names, f.served.Datagrams) {
		_ = c.Close()
	}
}
