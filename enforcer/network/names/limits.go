package names

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Limits bound what one sandbox may ask. All are greater than 0.
type Limits struct {
	// Queries a second, of all kinds; twice as many may come at once.
	Queries int
	// Names that no rule spells out, different ones, asked for in the life of the sandbox.
	Names int
	// LabelBytes is the longest label of a name that no rule spells out.
	LabelBytes int
	// NameBits is the most that such a name may carry: its letters times the Shannon entropy of their distribution.
	NameBits int
	// Pending lookups that wait for upstream. A query beyond them is refused, a connection of the relay's waits.
	Pending int
	// Connections by TCP at a time.
	Connections int
	// Idle is how long a connection may take to its next whole query.
	Idle time.Duration
	// Denials told to [Config].Denied in a second; the others are counted.
	Denials int
}

// DefaultLimits let every client work that was tried. By names below a wildcard, at most Names × NameBits = 50 KB leave a sandbox in its life.
// A UUID in a name is 140 bits and 36 letters, a SHA-1 in hexadecimal 155 and 40.
func DefaultLimits() Limits {
	return Limits{
		Queries: 200, Names: 1024, LabelBytes: 48, NameBits: 400,
		Pending: 32, Connections: 32, Idle: 10 * time.Second, Denials: 20,
	}
}

func (l Limits) check() error {
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"Queries", l.Queries}, {"Names", l.Names}, {"LabelBytes", l.LabelBytes}, {"NameBits", l.NameBits},
		{"Pending", l.Pending}, {"Connections", l.Connections}, {"Idle", int(l.Idle)}, {"Denials", l.Denials},
	} {
		if limit.value <= 0 {
			return fmt.Errorf("names: limit %s is %d, want more than 0", limit.name, limit.value)
		}
	}
	return nil
}

// carries says what in a name that no rule spells out is more than a name needs, or nothing.
func (l Limits) carries(name string) (reason string) {
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > l.LabelBytes {
			return ReasonLabel
		}
	}
	if bits(name) > float64(l.NameBits) {
		return ReasonBits
	}
	return ""
}

// bits is the number of letters, dots apart, times the entropy of their distribution.
func bits(name string) float64 {
	var counts [256]int
	total := 0
	for i := range len(name) {
		if name[i] != '.' {
			counts[name[i]]++
			total++
		}
	}
	sum := 0.0
	for _, count := range counts {
		if count > 0 {
			sum -= float64(count) * math.Log2(float64(count)/float64(total))
		}
	}
	return sum
}
