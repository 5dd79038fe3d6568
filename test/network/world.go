package network

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// World is the running network.
type World struct {
	// Resolver is the name server, recursive to its clients.
	Resolver netip.AddrPort
	// ResolvConf names it.
	ResolvConf string
	// CA is a file with the certificate that signed those of all hosts.
	CA string
	// Dir has what else a client needs, readable to all.
	Dir string

	authority *authority
	zone      *zone
	listeners []net.Listener
	running   sync.WaitGroup

	mu       sync.Mutex
	accepted map[netip.AddrPort]int
	sent     map[netip.Addr]int
	open     int
}

// New starts all hosts, in the namespace that [Main] made, until the test ends.
func New(t testing.TB) *World {
	t.Helper()
	if absent != nil {
		kerneltest.Require(t, kerneltest.UserNamespaces)
		t.Fatal("test network: ", absent)
	}
	if os.Getenv(inside) == "" {
		t.Fatal("test network: TestMain must run the tests by network.Main")
	}
	// Not below t.TempDir, which only its owner may enter.
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-network")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &World{
		Resolver: netip.AddrPortFrom(NameServer, 53), Dir: dir,
		CA: filepath.Join(dir, "ca.pem"), ResolvConf: filepath.Join(dir, "resolv.conf"),
		accepted: map[netip.AddrPort]int{}, sent: map[netip.Addr]int{},
	}
	t.Cleanup(w.close)
	if err := w.start(); err != nil {
		t.Fatal("test network: ", err)
	}
	return w
}

func (w *World) start() (err error) {
	if w.authority, err = newAuthority(); err != nil {
		return err
	}
	for file, content := range map[string]string{
		w.CA:         string(w.authority.pem),
		w.ResolvConf: fmt.Sprintf("nameserver %s\n", w.Resolver.Addr()),
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		return err
	}
	if err := w.makeRepository(); err != nil {
		return err
	}
	if w.zone, err = serveZone(w.Resolver); err != nil {
		return err
	}
	for _, host := range hosts {
		for _, service := range host.serve {
			if err := w.listen(host, service); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *World) close() {
	for _, listener := range w.listeners {
		listener.Close()
	}
	if w.zone != nil {
		w.zone.close()
	}
	w.running.Wait()
}

// Accepted is how many connections a host has taken at a port: that something was refused is one thing, that it never arrived another.
func (w *World) Accepted(address netip.Addr, port uint16) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted[netip.AddrPortFrom(address, port)]
}

// AllAccepted is a copy of the counts of all hosts.
func (w *World) AllAccepted() map[netip.AddrPort]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[netip.AddrPort]int, len(w.accepted))
	for at, count := range w.accepted {
		counts[at] = count
	}
	return counts
}

// Open is how many connections hosts have that nobody has ended.
func (w *World) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// Sent is how many bytes of /big a host has sent: more than none says that a transfer is under way.
func (w *World) Sent(address netip.Addr) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[address]
}

// Asked is how many questions for name, in lower case, the name server has had.
func (w *World) Asked(name string) int { return w.zone.count(name) }

// Answer changes what a name resolves to: records as "A 45.9.1.10", none for a name that exists without addresses.
func (w *World) Answer(name string, records ...string) { w.zone.set(name, records) }

// counting counts what a listener accepts.
type counting struct {
	net.Listener
	at netip.AddrPort
	w  *World
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.accepted[c.at]++
	c.w.open++
	return &counted{Conn: conn, w: c.w}, nil
}

// counted counts its end.
type counted struct {
	net.Conn
	w    *World
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.open--
	})
	return c.Conn.Close()
}
