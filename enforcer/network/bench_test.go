package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// tenThousand has a third each of names, wildcards and prefixes, on ports that vary; and destinations that they are asked for, half of which no
// rule has.
func tenThousand(tb testing.TB) (rules *Rules, names []string, addresses []netip.Addr) {
	random := rand.New(rand.NewPCG(1, 2))
	var spec policy.NetworkSpec
	ports := [][]int{nil, {443}, {80, 443}, {22, 80, 443, 5432, 8080}}
	for i := range 10_000 {
		rule := policy.EgressRule{Action: policy.NetworkAllow, Ports: ports[random.IntN(len(ports))]}
		if i%7 == 0 {
			rule.Action = policy.NetworkDeny
		}
		company := fmt.Sprintf("company-%d.example", random.IntN(3000))
		address := netip.AddrFrom4([4]byte{byte(20 + random.IntN(60)), byte(random.Uint32()), byte(random.Uint32()), 0})
		six := netip.AddrFrom16([16]byte{0x26, byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), 0, byte(random.Uint32())})
		switch i % 4 {
		case 0:
			rule.Target = fmt.Sprintf("api-%d.%s", random.IntN(100), company)
			names = append(names, rule.Target)
		case 1:
			rule.Target = "*." + company
			names = append(names, "www.eu."+company, "www.not-"+company)
		case 2:
			rule.Target = netip.PrefixFrom(address, 24).String()
			addresses = append(addresses, address.Next(), netip.AddrFrom4([4]byte{90, byte(i), byte(i >> 8), 1}))
		case 3:
			rule.Target = netip.PrefixFrom(six, 48).String()
			addresses = append(addresses, six.Next())
		}
		spec.Egress = append(spec.Egress, rule)
	}
	rules, err := Compile(spec)
	if err != nil {
		tb.Fatal(err)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	random.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	return rules, names, addresses
}

// BenchmarkName: budget 50 ns. What a processor can do at all is told by a lookup of the same names in a map, by turns with the judgement: such names, and
// rules, are too many for the caches next to it.
func BenchmarkName(b *testing.B) {
	rules, names, _ := tenThousand(b)
	against(b, names, func(name string) bool { return rules.Name(name, 443).Allow })
}

// BenchmarkAddress: budget 50 ns.
func BenchmarkAddress(b *testing.B) {
	rules, _, addresses := tenThousand(b)
	against(b, addresses, func(a netip.Addr) bool { return rules.Address(a, 443).Allow })
}

// against reports the median time of a judgement, and of a lookup in a map that has half of what is asked, in rounds over all by turns. The time is that of
// few at once, so that a processor that is taken away for a while is in few of them.
func against[T comparable](b *testing.B, asked []T, judge func(T) bool) {
	const few = 250
	known := map[T]bool{}
	for i, one := range asked {
		if i%2 == 0 {
			known[one] = true
		}
	}
	yes := 0
	round := func(times []float64, ask func(T) bool) []float64 {
		for some := range slices.Chunk(asked, few) {
			started := time.Now()
			for _, one := range some {
				if ask(one) {
					yes++
				}
			}
			times = append(times, float64(time.Since(started).Nanoseconds())/float64(len(some)))
		}
		return times
	}
	var judged, looked []float64
	for b.Loop() {
		judged = round(judged, judge)
		looked = round(looked, func(one T) bool { return known[one] })
	}
	if yes == 0 {
		b.Fatal("nothing is allowed")
	}
	slices.Sort(judged)
	slices.Sort(looked)
	b.ReportMetric(judged[len(judged)/2], "ns-p50")
	b.ReportMetric(judged[len(judged)/2]/looked[len(looked)/2], "p50/map")
}

func BenchmarkResolved(b *testing.B) {
	rules, _, addresses := tenThousand(b)
	name := Match{Allow: true, Rule: 5000}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i++; i == len(addresses) {
			i = 0
		}
		rules.Resolved(name, addresses[i], 443)
	}
}

func BenchmarkCompile(b *testing.B) {
	rules, _, _ := tenThousand(b)
	b.Run("10000", func(b *testing.B) {
		for b.Loop() {
			if _, err := Compile(rules.Spec()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("3", func(b *testing.B) {
		small := policy.NetworkSpec{Egress: rules.Spec().Egress[:3]}
		for b.Loop() {
			if _, err := Compile(small); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	rules, names, addresses := tenThousand(t)
	set := All(rules, rules)
	if n := testing.AllocsPerRun(100, func() {
		for i, name := range names[:100] {
			match := set.Name(name, 443)
			set.Address(addresses[i], 443)
			set.Resolved(match, addresses[i], 443)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
