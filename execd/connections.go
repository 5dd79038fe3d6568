package execd

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// connections bounds how many there are at once: each costs memory and a descriptor from its first moment, whatever comes on it. One more is told
// to come again, and closed.
type connections struct {
	most int64
	now  atomic.Int64
	// turnedAway are being told: also bounded, since a client that doesn't hang up keeps one for a second.
	turnedAway atomic.Int64
	// busy is called for each.
	busy func()
}

// state counts, as http.Server.ConnState.
func (c *connections) state(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.now.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.now.Add(-1)
	}
}

// boundedListener gives connections while there may be more.
type boundedListener struct {
	net.Listener
	connections *connections
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.connections.now.Load() < l.connections.most {
			return conn, err
		}
		l.connections.busy()
		l.connections.turnAway(conn)
	}
}

// tooMany is the answer, whatever the question.
var tooMany = func() []byte {
	const body = `{"code":"BUSY","message":"as many connections as this daemon allows","retryAfterSeconds":1}` + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}()

// goodbye is how long a client has for hanging up.
const goodbye = time.Second

// turnAway answers and closes. It reads what the client still sends: closed with bytes unread, a connection is reset, and a client that was
// writing may not look for the answer. When too many are being read, the next ones are closed as they are.
func (c *connections) turnAway(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(goodbye)) // what is wrong with a connection shows at the write
	_, err := conn.Write(tooMany)
	half, ok := conn.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil || c.turnedAway.Load() >= c.most {
		_ = conn.Close()
		return
	}
	c.turnedAway.Add(1)
	go func() {
		defer c.turnedAway.Add(-1)
		var rest [512]byte
		for {
			if _, err := conn.Read(rest[:]); err != nil {
				_ = conn.Close()
				return
			}
		}
	}()
}

// bound puts the bound on listeners, one for all of them.
func (c *connections) bound(listeners []net.Listener) []net.Listener {
	bounded := make([]net.Listener, len(listeners))
	for i, l := range listeners {
		bounded[i] = &boundedListener{l, c}
	}
	return bounded
}
