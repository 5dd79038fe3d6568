package execd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

// A token has at least 32 characters: with 43 of base64 it has 256 bits, which nobody guesses.
const (
	shortestToken = 32
	longestToken  = 4096
)

// TokenListener accepts TCP connections. The kernel doesn't say who is at the other end of one, so each request must have the token, and its
// caller is "whoever may read the token's file": the owner's ids, no process, and [policy.Caller].Via "token".
type TokenListener struct {
	net.Listener
	// digest is the token's: what is compared has one length, whatever a caller sends, and the token itself isn't kept.
	digest [sha256.Size]byte
	caller policy.Caller

	mu      sync.Mutex // guards refused
	refused func(policy.Caller, string)
}

// ListenToken listens on an address, which must be an IP address of the loopback device with a port: what is said there is neither encrypted nor
// bound to this machine anywhere else. With beyond, the operator says that something else protects it.
func ListenToken(address, tokenFile string, beyond bool) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen %q: want an IP address and a port, such as 127.0.0.1:7780", address)
	}
	if !at.Addr().Unmap().IsLoopback() && !beyond {
		return nil, fmt.Errorf("listen %s: not a loopback address; the token would cross a network in the clear", address)
	}
	token, owner, err := readToken(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", tokenFile, err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &TokenListener{Listener: l, digest: sha256.Sum256(token), caller: owner}, nil
}

// readToken takes the token of a file of secrets. A final newline isn't a part of it.
func readToken(path string) (token []byte, owner policy.Caller, err error) {
	token, owner, err = ReadSecret(path, longestToken+1)
	if err != nil {
		return nil, owner, err
	}
	if n := len(token); n > 0 && token[n-1] == '\n' {
		token = token[:n-1]
	}
	owner.Via = "token"
	return token, owner, CheckSecret(token)
}

// ReadSecret reads a regular file that is ours and that nobody else may read or change, at most most bytes of it. The caller is its owner, without a way to
// have come by.
func ReadSecret(path string, most int64) (data []byte, owner policy.Caller, err error) {
	// Without O_NONBLOCK a FIFO would hold us, and O_NOFOLLOW has the owner of a link not choose what is the secret.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, owner, err
	}
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, owner, os.NewSyscallError("fstat", err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, owner, errors.New("not a regular file")
	case int(stat.Uid) != os.Geteuid():
		return nil, owner, fmt.Errorf("belongs to uid %d, not to us (%d)", stat.Uid, os.Geteuid())
	case stat.Mode&0o077 != 0:
		return nil, owner, fmt.Errorf("mode %04o lets others at it; want 0600 or 0400", stat.Mode&0o7777)
	}
	data, err = io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return data, policy.Caller{UID: int(stat.Uid), GID: int(stat.Gid)}, err
}

// CheckSecret says why a token or key isn't one.
func CheckSecret(secret []byte) error {
	if len(secret) < shortestToken || len(secret) > longestToken {
		return fmt.Errorf("%d characters; want %d to %d, such as those of head -c 32 /dev/urandom | base64", len(secret), shortestToken, longestToken)
	}
	for _, c := range secret {
		if c <= ' ' || c > '~' {
			return errors.New("a character that can't be in a header; want printable ASCII without spaces, in one line")
		}
	}
	return nil
}

// Accept gives the next connection.
func (l *TokenListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tokenConn{conn, l}, nil
}

// CloseWrite says that no more comes.
func (c *tokenConn) CloseWrite() error {
	conn, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return errors.ErrUnsupported
	}
	return conn.CloseWrite()
}

// onRefused is told of every request without the token.
func (l *TokenListener) onRefused(refused func(policy.Caller, string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = refused
}

// tokenConn is a connection whose requests must have the token.
type tokenConn struct {
	net.Conn
	listener *TokenListener
}

// listenerKey is where a request's context has the listener whose token it must have.
type listenerKey struct{}

func withListener(ctx context.Context, conn *tokenConn) context.Context {
	return context.WithValue(ctx, listenerKey{}, conn.listener)
}

// errToken says what is missing, and nothing of what was wrong with what was there.
var errToken = errorOf("UNAUTHORIZED", "this address wants the daemon's token: Authorization: Bearer TOKEN")

// tokenCaller is who has sent a request of a [TokenListener]'s connection; known is false for any other connection.
func tokenCaller(r *http.Request) (caller policy.Caller, known bool, err error) {
	l, known := r.Context().Value(listenerKey{}).(*TokenListener)
	if !known {
		return caller, false, nil
	}
	if l.has(r.Header.Values("Authorization")) {
		return l.caller, true, nil
	}
	l.mu.Lock()
	refused := l.refused
	l.mu.Unlock()
	if refused != nil {
		refused(policy.Caller{UID: -1, GID: -1, Via: "token"}, "a request from "+r.RemoteAddr+" without the token")
	}
	return caller, true, errToken
}

// has compares in a time that depends on neither token.
func (l *TokenListener) has(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	digest := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(digest[:], l.digest[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
