package faults

import (
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/rego"
)

// ground is a network namespace of a test's own: in place of the machine's, daemons are started in it and dial the test's server there.
type ground struct {
	namespace *os.File
	server    *server
}

// where the server of a ground is; policyOf lists it.
const (
	serverHost = "45.9.1.3"
	serverPort = 7000
)

var (
	serverAddress = net.JoinHostPort(serverHost, fmt.Sprint(serverPort))
	letOut        = fmt.Sprintf(`{"egress":[{"action":"allow","target":%q,"ports":[%d]}]}`, serverHost, serverPort)
	asNetwork     = `,"network":` + letOut
)

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			g.namespace, err = os.Open("/proc/thread-self/ns/net")
		}
		if err == nil {
			command := exec.Command("ip", "-batch", "-")
			command.Stdin = strings.NewReader("link set lo up\naddress add " + serverHost + "/32 dev lo\n")
			err = command.Run()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.namespace.Close() })
	g.server = serveGround(t, g)
	return g
}

// The main thread is kept for the main goroutine: a thread that has entered another namespace ends with its goroutine, and the main one can't end.
func init() { runtime.LockOSThread() }

// inside does something on a thread that is in a network namespace, and ends with it.
func inside(t testing.TB, namespace *os.File, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := errors.New("the test was ended inside") // unless do comes back
		defer func() { done <- err }()
		if entered := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); entered != nil {
			err = entered
			return
		}
		err = do()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// start is start, on the ground, with a policy that lets programs out to its server.
func (g *ground) start(t *testing.T, bin, state string, arguments ...string) *daemon {
	t.Helper()
	d := prepare(t, bin, state, append(arguments, "--pool 0", "--policy "+policyOf(t, state))...)
	inside(t, g.namespace, func() error { d.run(t); return nil })
	return d
}

// policyOf is the default policy with the ground's server listed, beside the state.
func policyOf(t *testing.T, state string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(state), "policy")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.CopyFS(dir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	data["settings"].(map[string]any)["network"] = map[string]any{"targets": []any{map[string]any{"target": serverHost, "ports": []int{serverPort}}}}
	if text, err = json.Marshal(data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What the first byte of a connection has the server do. None is of a protocol that the relay looks into.
const (
	echoes byte = iota + 1 // send back what comes
	sends                  // send without end
	reads                  // say so, and read without end
)

// server accepts connections, and does with each what its first byte says.
type server struct {
	listener net.Listener
	running  sync.WaitGroup

	mu sync.Mutex
	// ends are how its connections ended.
	ends []error
}

func serveGround(t *testing.T, g *ground) *server {
	t.Helper()
	s := &server{}
	inside(t, g.namespace, func() (err error) {
		s.listener, err = net.Listen("tcp4", serverAddress)
		return err
	})
	s.running.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() {
				err := converse(conn)
				conn.Close()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ends = append(s.ends, err)
			})
		}
	})
	t.Cleanup(func() { s.listener.Close(); s.running.Wait() })
	return s
}

// ended waits for the end of so many connections, and gives them.
func (s *server) ended(t *testing.T, count int) []error {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // polls what the test is about
		s.mu.Lock()
		ends := slices.Clone(s.ends)
		s.mu.Unlock()
		if len(ends) >= count || time.Now().After(deadline) {
			return ends
		}
	}
}

// converse does what the first byte asks for until the connection ends, and gives how it did; nil is an orderly end of file.
func converse(conn net.Conn) error {
	what := make([]byte, 1)
	if _, err := io.ReadFull(conn, what); err != nil {
		return err
	}
	switch what[0] {
	case echoes:
		_, err := io.Copy(conn, conn)
		return err
	case sends:
		for block := make([]byte, 32<<10); ; {
			if _, err := conn.Write(block); err != nil {
				return err
			}
		}
	}
	if _, err := conn.Write(what); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	return err
}

// client is a connection from inside a sandbox, which this test holds: the sandbox's end doesn't end it.
type client struct {
	net.Conn
	// ended gives how it ended; nil is an orderly end of file.
	ended chan error
}

// connects connects from inside a network namespace to the ground's server and moves bytes until the connection ends: one there and back and then none, or
// all that fits in one direction.
func connects(t *testing.T, namespace *os.File, what byte) *client {
	t.Helper()
	c := &client{ended: make(chan error, 1)}
	inside(t, namespace, func() (err error) {
		c.Conn, err = (&net.Dialer{Timeout: 20 * time.Second}).Dial("tcp4", serverAddress)
		return err
	})
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte{what}); err != nil {
		t.Fatal(err)
	}
	begun := make([]byte, 1)
	switch what {
	case echoes:
		_, err := c.Write(begun)
		if err == nil {
			_, err = io.ReadFull(c, begun)
		}
		if err != nil {
			t.Fatal(err)
		}
	case sends, reads:
		if _, err := io.ReadFull(c, begun); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		if what != reads {
			_, err := io.Copy(io.Discard, c)
			c.ended <- err
			return
		}
		for block := make([]byte, 32<<10); ; {
			if _, err := c.Write(block); err != nil {
				c.ended <- err
				return
			}
		}
	}()
	return c
}

// traffic is one connection of each kind that is alive.
func traffic(t *testing.T, namespace *os.File) []*client {
	t.Helper()
	var all []*client
	for _, what := range []byte{echoes, sends, reads} {
		all = append(all, connects(t, namespace, what))
	}
	return all
}

// areReset: each connection ends, and neither end of it takes that for an orderly one.
func (g *ground) areReset(t *testing.T, clients []*client) {
	t.Helper()
	for i, c := range clients {
		select {
		case err := <-c.ended:
			if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
				t.Errorf("connection %d inside ended with %v, want a reset", i, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("connection %d inside is still alive", i)
		}
		c.Close()
	}
	ends := g.server.ended(t, len(clients))
	if len(ends) != len(clients) {
		t.Errorf("%d connections ended at the server, want %d", len(ends), len(clients))
	}
	for _, err := range ends {
		if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			t.Errorf("a connection ended with %v at the server, want a reset", err)
		}
	}
	g.server.mu.Lock()
	g.server.ends = nil
	g.server.mu.Unlock()
}

// namespaceOf opens the network namespace of the daemon's one sandbox.
func (g *ground) namespaceOf(t *testing.T, d *daemon) *os.File {
	t.Helper()
	own := inodeOf(t, g.namespace)
	for _, process := range d.left() {
		file, err := os.Open(strings.Fields(process)[0] + "/ns/net")
		if err != nil {
			continue // it has ended
		}
		if inodeOf(t, file) != own {
			t.Cleanup(func() { file.Close() })
			return file
		}
		file.Close()
	}
	t.Fatalf("no sandbox has a network of its own: %v", d.left())
	return nil
}

func inodeOf(t *testing.T, file *os.File) uint64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

// networkState is all of a network namespace that outlives who made it: links, addresses, routes, rules of routing, tables of nf_tables; and what listens.
func networkState(t *testing.T, namespace *os.File) string {
	t.Helper()
	var state strings.Builder
	inside(t, namespace, func() error {
		for _, ask := range []string{"link", "address", "-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule"} {
			command := exec.Command("ip", append([]string{"-oneline"}, strings.Fields(ask)...)...)
			out, err := command.CombinedOutput()
			if err != nil {
				return fmt.Errorf("ip %s: %w: %s", ask, err, out)
			}
			fmt.Fprintf(&state, "ip %s:\n%s", ask, out)
		}
		for name, kind := range map[string]uint16{"tables": unix.NFT_MSG_GETTABLE, "chains": unix.NFT_MSG_GETCHAIN, "rules": unix.NFT_MSG_GETRULE} {
			count, err := dumped(kind)
			if err != nil {
				return fmt.Errorf("nf_tables: %s: %w", name, err)
			}
			if count > 0 {
				fmt.Fprintf(&state, "nf_tables: %d %s\n", count, name)
			}
		}
		for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "packet", "netlink"} {
			own, err := sockets(kind)
			if err != nil {
				return err
			}
			fmt.Fprintf(&state, "%s: %d sockets\n", kind, own)
		}
		return nil
	})
	return state.String()
}

// sockets counts those of this thread's network namespace. Connections that have ended and wait for stray segments have no inode.
func sockets(kind string) (count int, err error) {
	data, err := os.ReadFile("/proc/thread-self/net/" + kind)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.Fields(line)
		if i == 0 || len(fields) > 9 && strings.HasPrefix(kind, "tcp") && fields[9] == "0" {
			continue
		}
		count++
	}
	return count, err
}

// dumped counts the messages that the kernel answers with to a question for all of a kind.
func dumped(kind uint16) (count int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	request := binary.NativeEndian.AppendUint32(nil, 20)
	request = binary.NativeEndian.AppendUint16(request, unix.NFNL_SUBSYS_NFTABLES<<8|kind)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request = append(request, make([]byte, 12)...)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	for buffer := make([]byte, 64<<10); ; {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return 0, err
		}
		for at := 0; at+16 <= n; {
			switch binary.NativeEndian.Uint16(buffer[at+4:]) {
			case unix.NLMSG_DONE:
				return count, nil
			case unix.NLMSG_ERROR:
				return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(buffer[at+16:])))
			}
			count++
			at += int(binary.NativeEndian.Uint32(buffer[at:])+3) &^ 3
		}
	}
}

// hasEnded: no process is in a network namespace, and no mount keeps it. The test has closed its own descriptors; it lived until then, in ticks since
// the boot. The kernel gives the number of a namespace that has ended to the next that is made: who has started since is in that one.
func hasEnded(t *testing.T, namespace uint64, then int64) {
	t.Helper()
	name := fmt.Sprintf("net:[%d]", namespace)
	links, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target == name && startedBefore(link, then) {
			t.Errorf("%s is still %s", link, name)
		}
	}
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range descriptors {
		if target, _ := os.Readlink(link); target == name && startedBefore(link, then) {
			t.Errorf("%s keeps %s", link, name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), name) {
		t.Errorf("a mount keeps %s (%v)", name, err)
	}
}

// startedBefore says whether the process that a path beneath /proc/PID belongs to is older.
func startedBefore(path string, then int64) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strings.Split(path, "/")[2], "stat"))
	if err != nil {
		return false // it has ended
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:])) // from the third, state, on (proc_pid_stat(5))
	started, err := strconv.ParseInt(fields[22-3], 10, 64)
	return err == nil && started < then
}

// ticks are since the boot, a hundred a second, as the start of a process is counted.
func ticks(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / int64(10*time.Millisecond)
}
