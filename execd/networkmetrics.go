package execd

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/enforcer/network/names"
	"github.com/sandboxd/sandboxd/enforcer/network/relay"
)

// networkMetrics counts what goes out, over all sandboxes. No name, address or rule is a label: a sandbox could make as many as it likes.
type networkMetrics struct {
	queries *prometheus.CounterVec
	lookups *prometheus.HistogramVec
	// live are the sandboxes whose relays count by themselves.
	live func() []relay.Stats

	mu   sync.Mutex
	gone relay.Stats // of those that are closed
}

var (
	connectionsDesc = prometheus.NewDesc("sandboxd_network_connections_total", "Connections of sandboxes that ended or were refused, by result.", []string{"result"}, nil)
	deniedDesc      = prometheus.NewDesc("sandboxd_network_denied_total", "Connections refused, by what decided: a rule, the default, a closed kind of address, the relay.", []string{"by"}, nil)
	bytesDesc       = prometheus.NewDesc("sandboxd_network_bytes_total", "Bytes of sandboxes' connections, by direction.", []string{"direction"}, nil)
	liveDesc        = prometheus.NewDesc("sandboxd_network_connections", "Connections that are open.", nil, nil)
)

func newNetworkMetrics(live func() []relay.Stats) *networkMetrics {
	return &networkMetrics{
		live: live,
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandboxd_names_queries_total", Help: "DNS queries of sandboxes, by the code of the answer.",
		}, []string{"rcode"}),
		lookups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandboxd_names_lookup_seconds", Help: "Lookups of names, by where the answer came from.",
			Buckets: []float64{.0001, .001, .005, .02, .05, .1, .25, 1, 5},
		}, []string{"from"}),
	}
}

func (m *networkMetrics) query(q names.Query) { m.queries.WithLabelValues(q.Rcode).Inc() }

func (m *networkMetrics) lookup(l names.Lookup) {
	from := "upstream"
	switch {
	case l.Failed:
		from = "failed"
	case l.Cached:
		from = "cache"
	}
	m.lookups.WithLabelValues(from).Observe(l.Took.Seconds())
}

// ended adds what a sandbox that is closed has counted.
func (m *networkMetrics) ended(s relay.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = sum(m.gone, s)
}

func sum(a, b relay.Stats) relay.Stats {
	by := map[int]int64{}
	for _, one := range []relay.Stats{a, b} {
		for rule, count := range one.DeniedBy {
			by[min(rule, 0)] += count // every rule counts as one
		}
	}
	return relay.Stats{
		Accepted: a.Accepted + b.Accepted, Live: a.Live + b.Live, Ended: a.Ended + b.Ended, Cut: a.Cut + b.Cut, Failed: a.Failed + b.Failed,
		Denied: a.Denied + b.Denied, Full: a.Full + b.Full, BytesOut: a.BytesOut + b.BytesOut, BytesIn: a.BytesIn + b.BytesIn, DeniedBy: by,
	}
}

// Describe and Collect make it a collector of what relays count.
func (m *networkMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{connectionsDesc, deniedDesc, bytesDesc, liveDesc} {
		ch <- desc
	}
}

// Collect is Describe's other half.
func (m *networkMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	all := m.gone
	m.mu.Unlock()
	for _, one := range m.live() {
		all = sum(all, one)
	}
	counter := func(desc *prometheus.Desc, value int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	counter(connectionsDesc, all.Ended, "ended")
	counter(connectionsDesc, all.Cut, "cut")
	counter(connectionsDesc, all.Failed, "failed")
	counter(connectionsDesc, all.Denied, "denied")
	counter(deniedDesc, all.DeniedBy[0], "rule")
	counter(deniedDesc, all.DeniedBy[network.Default], "default")
	counter(deniedDesc, all.DeniedBy[network.Closed], "closed")
	counter(deniedDesc, all.DeniedBy[relay.RuleRelay], "relay")
	counter(bytesDesc, all.BytesOut, "out")
	counter(bytesDesc, all.BytesIn, "in")
	ch <- prometheus.MustNewConstMetric(liveDesc, prometheus.GaugeValue, float64(all.Live))
}
