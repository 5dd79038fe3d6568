package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is the times of one kind of act.
type sample []time.Duration

func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (s sample) p50() time.Duration { return s.quantile(0.50) }
func (s sample) p99() time.Duration { return s.quantile(0.99) }

// ratio is a over b.
func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// short writes a time with three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.2f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	default:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
}

// met says whether a value is within its budget, and by how much it isn't.
func met(value, budget float64) string {
	if value <= budget {
		return "yes"
	}
	return fmt.Sprintf("no, %.1f × the budget", value/budget)
}

// timed measures one act.
func timed(act func() error) (time.Duration, error) {
	begin := time.Now()
	err := act()
	return time.Since(begin), err
}
