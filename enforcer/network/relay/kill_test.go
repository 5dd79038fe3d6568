package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// childEnv has this test program be a relay in a process of its own: "PORT ADDRESS" is the port that connections are for, and where the server is.
const childEnv = "RELAY_TEST_CHILD"

// childMain says where it listens, and answers each line of its input with what it holds.
func childMain() {
	port, upstream, _ := strings.Cut(os.Getenv(childEnv), " ")
	number, err := strconv.ParseUint(port, 10, 16)
	check(err)
	rules, err := network.Compile(policy.NetworkSpec{Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: "a.example"}}}.Defaulted())
	check(err)
	capacity, err := NewCapacity(0)
	check(err)
	destination, address := netip.MustParseAddrPort("198.18.0.1:"+strconv.Itoa(int(number))), []netip.Addr{netip.MustParseAddr("8.0.0.1")}
	server, err := New(Config{
		Judge:       func() network.Set { return network.All(rules) },
		NameOf:      func(a netip.Addr) (string, bool) { return "a.example", a == destination.Addr() },
		Resolve:     func(context.Context, string) ([]netip.Addr, error) { return address, nil },
		Destination: func(*net.TCPConn) (netip.AddrPort, error) { return destination, nil },
		Dial: func(ctx context.Context, _ netip.AddrPort) (*net.TCPConn, error) {
			return dial(ctx, netip.MustParseAddrPort(upstream))
		},
		Capacity: capacity, Limits: Limits{Connections: 5000},
	})
	check(err)
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	go func() { _ = server.Serve(l) }()
	fmt.Println(l.Addr())
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		if input.Text() == "tighten" {
			rules, err = network.Compile(policy.NetworkSpec{}.Defaulted())
			check(err)
			server.Tighten()
		}
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		fds, err := os.ReadDir("/proc/self/fd")
		check(err)
		var usage unix.Rusage
		check(unix.Getrusage(unix.RUSAGE_SELF, &usage))
		fmt.Println(len(fds), memory.HeapAlloc+memory.StackInuse, resident(), time.Duration(usage.Utime.Nano()+usage.Stime.Nano()).Microseconds())
	}
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func resident() int {
	data, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	check(err)
	return pages * os.Getpagesize()
}

// child is a relay in a process of its own.
type child struct {
	t       testing.TB
	command *exec.Cmd
	address string
	in      io.WriteCloser
	out     *bufio.Reader
}

func newChild(t testing.TB, port int, upstream string) *child {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childEnv, port, upstream))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, command: command, in: in, out: bufio.NewReader(out)}
	t.Cleanup(c.kill)
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c.address = strings.TrimSpace(line)
	return c
}

func (c *child) kill() {
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
}

// holds are its descriptors, the memory that its Go program uses, its resident memory, and its processor time in µs.
func (c *child) holds(command string) (fds, used, resident, cpu int) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, command); err != nil {
		c.t.Fatal(err)
	}
	if _, err := fmt.Fscan(c.out, &fds, &used, &resident, &cpu); err != nil {
		c.t.Fatal(err)
	}
	return fds, used, resident, cpu
}

func (c *child) dial() *net.TCPConn {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// A relay that is killed is a reset at both ends, not an end of file, which would look like all there is.
func TestKilled(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	relay := newChild(t, 9000, l.Addr().String())
	var ends []*net.TCPConn
	for i := range 100 {
		client := relay.dial()
		defer client.Close()
		server, err := l.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		switch i % 3 { // nothing said yet; in the middle; one end has ended
		case 1:
			send(t, client, "\x00")
			wantRead(t, server, "\x00")
			send(t, server, "half of an ans")
			wantRead(t, client, "half of an ans")
		case 2:
			_ = client.CloseWrite()
			if n, err := server.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Fatal(n, err)
			}
			ends = append(ends, client)
			continue
		}
		ends = append(ends, client, server)
	}
	relay.kill()
	for _, end := range ends {
		_ = end.SetDeadline(time.Now().Add(10 * time.Second))
		wantReset(t, end)
	}
	if _, err := net.Dial("tcp", relay.address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a new connection: %v, want ECONNREFUSED", err)
	}
}

// An idle connection is two descriptors and two small stacks.
func TestIdle(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	relay := newChild(t, 443, l.Addr().String())
	hello := string(goHello(t, "a.example"))
	const count = 1000
	open := func() {
		client := relay.dial()
		t.Cleanup(func() { client.Close() })
		server, err := l.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		send(t, client, hello)
		wantRead(t, server, hello)
		big := strings.Repeat("x", 200<<10) // both ways have been a stream
		go func() { _, _ = io.WriteString(server, big) }()
		wantRead(t, client, big)
	}
	for range 10 {
		open()
	}
	fds, used, resident, _ := relay.holds("idle")
	for range count {
		open()
	}
	fdsThen, usedThen, residentThen, _ := relay.holds("idle")
	perConnection := (usedThen - used) / count
	t.Logf("%d descriptors, %d bytes of heap and stacks, %d resident, each of %d", (fdsThen-fds)/count, perConnection, (residentThen-resident)/count, count)
	if fdsThen-fds > 2*count+2*keptPipes {
		t.Errorf("%d descriptors for %d connections", fdsThen-fds, count)
	}
	if perConnection > 24<<10 {
		t.Errorf("%d bytes for each connection", perConnection)
	}
}
