package fence

import (
	"slices"
	"testing"
	"time"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkMake makes fenced namespaces in turns with empty ones; the ratio of medians is reported.
func BenchmarkMake(b *testing.B) {
	p := AnyIP(true, true)
	var empty, fenced []time.Duration
	for b.Loop() {
		begin := time.Now()
		fds, err := socketsElsewhere(p.Sockets[:1])
		if err != nil {
			b.Fatal(err)
		}
		empty = append(empty, time.Since(begin))
		closeAll(fds)
		begin = time.Now()
		if fds, err = Elsewhere(p); err != nil {
			b.Fatal(err)
		}
		fenced = append(fenced, time.Since(begin))
		closeAll(fds)
	}
	b.ReportMetric(float64(median(empty).Microseconds()), "empty-µs")
	b.ReportMetric(float64(median(fenced))/float64(median(empty)), "fenced/empty")
}

// BenchmarkObserve reads a fence back whole, and compares.
func BenchmarkObserve(b *testing.B) {
	v := visit(b, nil)
	var read []time.Duration
	for b.Loop() {
		begin := time.Now()
		s, err := v.Observe()
		if err != nil {
			b.Fatal(err)
		}
		Check(v.Plan(), s.Namespaces[0], s)
		read = append(read, time.Since(begin))
	}
	b.ReportMetric(float64(median(read).Microseconds()), "p50-µs")
}

// BenchmarkNotice is from a foreign change to Watch's saying so.
func BenchmarkNotice(b *testing.B) {
	v := visit(b, nil)
	changed := make(chan struct{}, 64)
	go func() { _ = v.Watch(b.Context(), func() { changed <- struct{}{} }) }()
	var noticed []time.Duration
	for b.Loop() {
		begin := time.Now()
		v.change(b, transaction(rule("pre", accept())))
		<-changed
		noticed = append(noticed, time.Since(begin))
	}
	b.ReportMetric(float64(median(noticed).Microseconds()), "p50-µs")
}

// BenchmarkRefusal is what a program waits for a no.
func BenchmarkRefusal(b *testing.B) {
	v := visit(b, nil, udp4)
	for b.Loop() {
		if err := refusal(v.fds[0], "8.8.8.8:443"); err == nil {
			b.Fatal("not refused")
		}
	}
}
