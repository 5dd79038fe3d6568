package place

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// The world beyond the pod's link, and the ports on which it answers.
const (
	worldAddress = "192.0.2.1"
	allowedPort  = 80    // what the tests let the runner reach
	otherPort    = 9     // and what not
	proxyPort    = 15001 // another host's, of the number that the relay has in the pod
)

// world is a namespace at the other end of the pod's link, in which everything answers.
func (p *pod) world() {
	p.t.Helper()
	holder := holdNetwork(p.t)
	p.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(holder.Process.Pid))
	p.ip("addr", "add", "192.0.2.2/24", "dev", "eth0")
	p.ip("link", "set", "eth0", "up")
	outside := &pod{t: p.t, holder: holder}
	outside.ip("addr", "add", worldAddress+"/24", "dev", "eth0")
	outside.ip("link", "set", "lo", "up")
	outside.ip("link", "set", "eth0", "up")
	p.ip("route", "add", "default", "via", worldAddress)
	outside.within(func() error {
		for _, port := range []int{allowedPort, otherPort, proxyPort} {
			l, err := net.Listen("tcp4", net.JoinHostPort(worldAddress, strconv.Itoa(port)))
			if err != nil {
				return err
			}
			p.t.Cleanup(func() { l.Close() })
			go func() {
				_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the world") }))
			}()
		}
		return nil
	})
}

// within does something in the pod's network namespace; sockets that it makes stay there.
func (p *pod) within(do func() error) {
	p.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: no other goroutine gets the thread
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.holder.Process.Pid))
		if err == nil {
			err = errors.Join(unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET), namespace.Close())
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		p.t.Fatal(err)
	}
}

// neighbour is another container of the pod: it listens on the loopback that all share, and on an abstract name.
func (p *pod) neighbour() {
	p.t.Helper()
	p.within(func() error {
		for _, at := range [][2]string{{"tcp4", "127.0.0.1:8080"}, {"unix", "@neighbour"}} {
			l, err := net.Listen(at[0], at[1])
			if err != nil {
				return err
			}
			p.t.Cleanup(func() { l.Close() })
		}
		return nil
	})
}

// letOut makes the runner's network let one port of the world out, and says what came of it.
func (p *pod) letOut(t *testing.T, spec string) (int, string) {
	t.Helper()
	var list struct {
		Sandboxes []struct {
			ID string `json:"id"`
		} `json:"sandboxes"`
	}
	p.decode(http.MethodGet, "/v1/sandboxes", "", &list)
	if len(list.Sandboxes) != 1 {
		t.Fatalf("%+v", list)
	}
	return p.do(http.MethodPut, "/v1/network?sandbox="+list.Sandboxes[0].ID, spec)
}
