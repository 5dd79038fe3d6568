package relay

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The benchmarks run the ways that they compare by turns, and report ratios to the direct one, or to the other, of the same run. The relay is a process
// of its own; client and server share this one.

// server answers with as many bytes as the first byte of a connection says, or sinks what comes.
func benchServer(b *testing.B) string {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go benchServe(c)
		}
	}()
	return l.Addr().String()
}

// What a client says first: one byte is wanted back; a stream is wanted; a stream follows.
const (
	sayOne  = 0
	sayDown = 1
	sayUp   = 2
)

func benchServe(c *net.TCPConn) {
	defer c.Close()
	first := make([]byte, 4096)
	n, err := c.Read(first)
	if err != nil {
		return
	}
	switch first[0] {
	case sayDown:
		chunk := make([]byte, 256<<10)
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	case sayUp:
		chunk := make([]byte, 256<<10)
		for {
			if _, err := c.Read(chunk); err != nil {
				_, _ = c.Write(first[:1])
				return
			}
		}
	}
	_, _ = c.Write(first[:1])
	_ = n
	_, _ = c.Read(first)
}

// setUp is the time from socket(2) to the first byte back.
func setUp(b *testing.B, address string, first []byte) time.Duration {
	started := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Write(first); err != nil {
		b.Fatal(err)
	}
	var back [1]byte
	if _, err := io.ReadFull(c, back[:]); err != nil {
		b.Fatal(err)
	}
	took := time.Since(started)
	_ = c.(*net.TCPConn).SetLinger(0) // thousands in TIME_WAIT would use up the ports
	c.Close()
	return took
}

type way struct {
	address string
	first   []byte
	times   []time.Duration
}

func (w *way) at(quantile float64) time.Duration {
	slices.Sort(w.times)
	return w.times[min(int(quantile*float64(len(w.times))), len(w.times)-1)]
}

func byTurns(b *testing.B, ways ...*way) {
	for range 200 {
		for _, w := range ways {
			setUp(b, w.address, w.first)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		for _, w := range ways {
			w.times = append(w.times, setUp(b, w.address, w.first))
		}
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// BenchmarkSetUp: budget 4 times the direct way, p50 and p99.
func BenchmarkSetUp(b *testing.B) {
	server := benchServer(b)
	direct := &way{address: server, first: []byte{sayOne}}
	relayed := &way{address: newChild(b, 9000, server).address, first: []byte{sayOne}}
	byTurns(b, direct, relayed)
	b.ReportMetric(ratio(relayed.at(0.5), direct.at(0.5)), "p50/direct")
	b.ReportMetric(ratio(relayed.at(0.99), direct.at(0.99)), "p99/direct")
	b.ReportMetric(float64(relayed.at(0.5).Microseconds()), "p50-µs")
	b.ReportMetric(float64(relayed.at(0.99).Microseconds()), "p99-µs")
}

// BenchmarkPeek: a TLS hello that is judged, to bytes as many that aren't. Both go to the same relay.
func BenchmarkPeek(b *testing.B) {
	server := benchServer(b)
	hello := goHello(b, "a.example")
	address := newChild(b, 9000, server).address
	plain := &way{address: address, first: make([]byte, len(hello))}
	peeked := &way{address: address, first: hello}
	byTurns(b, plain, peeked)
	b.ReportMetric(ratio(peeked.at(0.5), plain.at(0.5)), "p50/without")
	b.ReportMetric(ratio(peeked.at(0.99), plain.at(0.99)), "p99/without")
}

// throughput is how long streams take to move so many bytes together.
func throughput(b *testing.B, address string, streams int, say byte, total int) time.Duration {
	var running sync.WaitGroup
	started := time.Now()
	for range streams {
		running.Go(func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			_, _ = c.Write([]byte{say})
			chunk := make([]byte, 256<<10)
			for left := total / streams; left > 0; {
				n := min(left, len(chunk))
				if say == sayUp {
					n, err = c.Write(chunk[:n])
				} else {
					n, err = c.Read(chunk[:n])
				}
				if err != nil {
					b.Error(err)
					return
				}
				left -= n
			}
			if say == sayUp { // what is written is there when the server says so
				_ = c.(*net.TCPConn).CloseWrite()
				if _, err := c.Read(chunk); err != nil && !errors.Is(err, io.EOF) {
					b.Error(err)
				}
			}
		})
	}
	running.Wait()
	return time.Since(started)
}

// BenchmarkThroughput: budget half of the direct way with one stream, six tenths with 64, on two processors that client and server use as well. On a machine
// that others use too three processes get more of it than two: what the processor time of all comes to says what there would be without the others.
func BenchmarkThroughput(b *testing.B) {
	const total, rounds = 256 << 20, 9 // medians of few rounds say little on a machine that does other things as well
	for _, test := range []struct {
		name    string
		streams int
		say     byte
	}{{"1/up", 1, sayUp}, {"1/down", 1, sayDown}, {"64/up", 64, sayUp}, {"64/down", 64, sayDown}} {
		b.Run(test.name, func(b *testing.B) {
			server := benchServer(b)
			relay := newChild(b, 9000, server)
			var direct, relayed, directCPU, relayedCPU []time.Duration
			throughput(b, relay.address, test.streams, test.say, total)
			for b.Loop() {
				for range rounds {
					wall, cpu := measured(relay, func() time.Duration { return throughput(b, server, test.streams, test.say, total) })
					direct, directCPU = append(direct, wall), append(directCPU, cpu)
					wall, cpu = measured(relay, func() time.Duration { return throughput(b, relay.address, test.streams, test.say, total) })
					relayed, relayedCPU = append(relayed, wall), append(relayedCPU, cpu)
				}
			}
			median := func(all []time.Duration) time.Duration {
				slices.Sort(all)
				return all[len(all)/2]
			}
			b.ReportMetric(100*ratio(median(direct), median(relayed)), "%direct")
			b.ReportMetric(100*ratio(median(directCPU), median(relayedCPU)), "%direct-cpu")
			b.ReportMetric(float64(total)/median(relayed).Seconds()/1e9, "GB/s")
		})
	}
}

// measured is also how much processor time client, server and relay took together.
func measured(relay *child, act func() time.Duration) (wall, cpu time.Duration) {
	all := func() time.Duration {
		var own unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &own)
		_, _, _, others := relay.holds("cpu")
		return time.Duration(own.Utime.Nano()+own.Stime.Nano()) + time.Duration(others)*time.Microsecond
	}
	before := all()
	wall = act()
	return wall, all() - before
}

// BenchmarkCut: a thousand connections, from Tighten to the last reset that is seen. Budget 1 s.
func BenchmarkCut(b *testing.B) {
	server := benchServer(b)
	for b.Loop() {
		b.StopTimer()
		relay := newChild(b, 9000, server)
		connections := make([]*net.TCPConn, 1000)
		for i := range connections {
			connections[i] = relay.dial()
			_, _ = connections[i].Write([]byte{sayOne})
			_, _ = io.ReadFull(connections[i], make([]byte, 1))
		}
		b.StartTimer()
		go func() { _, _ = io.WriteString(relay.in, "tighten\n") }()
		for _, c := range connections {
			_, _ = c.Read(make([]byte, 1))
		}
		b.StopTimer()
		for _, c := range connections {
			c.Close()
		}
		relay.kill()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/1000")
}
