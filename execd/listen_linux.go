package execd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

// Self is this process as a caller of its own service: the command line without a daemon.
func Self() policy.Caller {
	return policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), Via: "cli"}
}

// maxSocketPath is how long the path of a socket may be (unix(7): sun_path, with its NUL).
const maxSocketPath = 107

// Listener accepts the connections of some users. It closes those of all others at once.
type Listener struct {
	*net.UnixListener
	path  string
	allow []int
	// inode tells our socket from another that got its path.
	inode uint64

	mu      sync.Mutex // guards refused
	refused func(policy.Caller, string)
	closed  sync.Once
}

// Listen makes the socket. allow are the uids that may connect; none: our own only.
//
// The directory of the socket is made, or must be ours with nobody else able to write in it: who can write in it could put another socket in
// our place. It is mode 0700 and the socket 0600; with other users in allow 0711 and 0666, since it isn't the file's mode that decides then but
// the kernel's word on who connects. A socket that is there already is replaced only if it is ours and nobody listens on it.
func Listen(path string, allow []int) (net.Listener, error) {
	if !filepath.IsAbs(path) || len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket %q: want an absolute path of at most %d bytes", path, maxSocketPath)
	}
	if len(allow) == 0 {
		allow = []int{os.Geteuid()}
	}
	others := slices.ContainsFunc(allow, func(uid int) bool { return uid != os.Geteuid() })
	if err := socketDir(filepath.Dir(path), others); err != nil {
		return nil, err
	}
	if err := clearPath(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	listener := &Listener{UnixListener: l, path: path, allow: slices.Clone(allow)}
	mode := uint32(0o600)
	if others {
		mode = 0o666
	}
	if listener.inode, err = socketInode(path); err == nil {
		err = unix.Chmod(path, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, errors.Join(err, listener.Close()))
	}
	return listener, nil
}

// socketDir makes the directory or refuses one in which others could act.
func socketDir(dir string, others bool) error {
	mode := os.FileMode(0o700)
	if others {
		mode = 0o711
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	err := os.Mkdir(dir, mode)
	if err == nil {
		err = os.Chmod(dir, mode) // whatever the umask is
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("socket directory: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return fmt.Errorf("socket directory %s: %w", dir, err)
	}
	have := stat.Mode & 0o7777
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("socket directory %s: not a directory (a symlink is none)", dir)
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("socket directory %s: belongs to uid %d, not to us (%d)", dir, stat.Uid, os.Geteuid())
	case have&0o022 != 0:
		return fmt.Errorf("socket directory %s: mode %04o lets others write in it; want %04o", dir, have, mode)
	case !others && have&0o077 != 0:
		return fmt.Errorf("socket directory %s: mode %04o; want 0700 for a socket of our own", dir, have)
	case others && have&0o011 == 0:
		return fmt.Errorf("socket directory %s: mode %04o keeps the allowed users out; want 0711", dir, have)
	}
	return nil
}

// clearPath takes our own dead socket away. Whatever else is at the path is an error.
func clearPath(path string) error {
	var stat unix.Stat_t
	err := unix.Lstat(path, &stat)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case stat.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return fmt.Errorf("socket %s: there is a file of another kind", path)
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("socket %s: there is a socket of uid %d, not ours (%d)", path, stat.Uid, os.Geteuid())
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close() // nothing was said on it
		return fmt.Errorf("socket %s: a daemon is listening on it", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("socket %s: neither dead nor alive: %w", path, err)
	}
	return os.Remove(path)
}

func socketInode(path string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return 0, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK || int(stat.Uid) != os.Geteuid() {
		return 0, errors.New("it is no longer the socket that we made")
	}
	return stat.Ino, nil
}

// Accept gives the next connection of an allowed user.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		caller, err := peerOf(conn)
		if err == nil && slices.Contains(l.allow, caller.UID) {
			return &peerConn{UnixConn: conn, caller: caller, listener: l}, nil
		}
		_ = conn.Close() // a stranger's
		if err == nil {
			l.tell(caller, "this user may not connect")
		}
	}
}

func (l *Listener) tell(caller policy.Caller, why string) {
	l.mu.Lock()
	refused := l.refused
	l.mu.Unlock()
	if refused != nil {
		refused(caller, why)
	}
}

// onRefused is told of everybody whose connection is closed, and why.
func (l *Listener) onRefused(refused func(policy.Caller, string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = refused
}

// Close stops listening and takes the socket away, unless something else has got its path meanwhile.
func (l *Listener) Close() (err error) {
	l.closed.Do(func() {
		if inode, lost := socketInode(l.path); lost == nil && inode == l.inode {
			err = os.Remove(l.path)
		}
		err = errors.Join(l.UnixListener.Close(), err)
	})
	return err
}

// peerConn is a connection whose peer the kernel has named.
type peerConn struct {
	*net.UnixConn
	caller   policy.Caller
	listener *Listener
	passed   atomic.Bool // a descriptor has come
}

// errDescriptors ends a connection on which descriptors came: nothing of the API takes one.
var errDescriptors = errors.New("descriptors were passed on the connection")

// Read takes bytes only. There is no room for control data, so that the kernel closes a passed descriptor before it is one of ours, and says by
// MSG_CTRUNC that there was one (unix(7)).
func (c *peerConn) Read(data []byte) (int, error) {
	if c.passed.Load() {
		return 0, errDescriptors
	}
	if len(data) == 0 {
		return 0, nil
	}
	n, _, flags, _, err := c.ReadMsgUnix(data, nil)
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		if !c.passed.Swap(true) {
			c.listener.tell(c.caller, errDescriptors.Error())
		}
		return 0, errDescriptors
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // as a reader says it
	}
	return max(0, n), err
}

// callerKey is where a request's context has its caller.
type callerKey struct{}

// withCaller puts the kernel's word on the peer into the context of all requests of a connection, or whose token they must have. A connection
// without either gets no caller, and its requests no answer but 401.
func withCaller(ctx context.Context, conn net.Conn) context.Context {
	if peer, ok := conn.(*peerConn); ok {
		return context.WithValue(ctx, callerKey{}, peer.caller)
	}
	if conn, ok := conn.(*tokenConn); ok {
		return withListener(ctx, conn)
	}
	return ctx
}

func callerOf(ctx context.Context) (policy.Caller, bool) {
	caller, ok := ctx.Value(callerKey{}).(policy.Caller)
	return caller, ok
}
