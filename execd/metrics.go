package execd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sandboxd/sandboxd/policy"
)

// metrics are what /metrics shows. Labels have few values, all known beforehand: nothing that a caller writes becomes one.
type metrics struct {
	registry *prometheus.Registry
	drifts   *prometheus.CounterVec
	execs    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	answers  *prometheus.CounterVec
	busy     prometheus.Counter
	refused  prometheus.Counter
	reloads  *prometheus.CounterVec
	files    *prometheus.CounterVec
	content  *prometheus.CounterVec
	runs     *prometheus.CounterVec
}

func newMetrics(s *Service) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		execs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandboxd_execs_total", Help: "Requests that ended, by action and outcome.",
		}, []string{"action", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandboxd_exec_seconds", Help: "From the request to its reply, by action.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
		}, []string{"action"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandboxd_http_answers_total", Help: "HTTP answers, by route and status.",
		}, []string{"route", "status"}),
		busy:    prometheus.NewCounter(prometheus.CounterOpts{Name: "sandboxd_busy_total", Help: "Requests turned away since the queue was full."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "sandboxd_refused_connections_total", Help: "Connections of callers who may not."}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandboxd_policy_reloads_total", Help: "Attempts to reload the policy, by result.",
		}, []string{"result"}),
		drifts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandboxd_drifts_total", Help: "What held once and didn't any more, by where it was found.",
		}, []string{"where"}),
	}
	for _, where := range []string{"exec", "sandbox"} {
		m.drifts.WithLabelValues(where)
	}
	m.registry.MustRegister(m.drifts)
	for _, action := range []policy.Action{policy.ActionExec, policy.ActionRun} {
		for _, outcome := range Outcomes {
			m.execs.WithLabelValues(string(action), string(outcome))
		}
	}
	m.files = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandboxd_file_operations_total", Help: "File operations that ended, by operation and code; OK is a code.",
	}, []string{"operation", "code"})
	m.content = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandboxd_file_bytes_total", Help: "Bytes of content that file operations moved.",
	}, []string{"operation"})
	for _, operation := range policy.FileOperations {
		m.files.WithLabelValues(string(operation), "OK")
	}
	m.runs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandboxd_runs_total", Help: "Runs that were released, by whether their interpreter waited for them (warm) or was started for them (cold).",
	}, []string{"interpreter"})
	for _, how := range []string{InterpreterWarm, InterpreterCold} {
		m.runs.WithLabelValues(how)
	}
	m.registry.MustRegister(s.sandboxes.outlets.metrics, s.sandboxes.outlets.metrics.queries, s.sandboxes.outlets.metrics.lookups)
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.execs, m.seconds, m.answers, m.busy, m.refused, m.reloads, m.files, m.content, m.runs,
		gauge("sandboxd_running", "Requests that run.", func() float64 { return float64(s.queue.running()) }),
		gauge("sandboxd_waiting", "Requests that wait for a place.", func() float64 { return float64(s.queue.waiting.Load()) }),
		gauge("sandboxd_request_memory_bytes", "Memory that is reserved for requests.", func() float64 { return float64(s.bodies.held.Load()) }),
		gauge("sandboxd_spool_bytes", "Disk that long inputs and values have.", func() float64 { return float64(s.spool.Held()) }),
		gauge("sandboxd_output_memory_bytes", "Memory that is reserved for output.", func() float64 { return float64(s.queue.outputs.held.Load()) }),
		gauge("sandboxd_sandboxes_ready", "Fresh sandboxes in the pool.", func() float64 { ready, _, _, _ := s.sandboxes.count(); return float64(ready) }),
		gauge("sandboxd_sandboxes_kept", "Sandboxes that callers made.", func() float64 { _, kept, _, _ := s.sandboxes.count(); return float64(kept) }),
		gauge("sandboxd_sandboxes_quarantined", "Sandboxes whose end isn't proven.", func() float64 { _, _, lost, _ := s.sandboxes.count(); return float64(lost) }),
		gauge("sandboxd_sandboxes_drifted", "Sandboxes that drifted and aren't gone.", func() float64 { return float64(len(s.sandboxes.alive(hasDrifted))) }),
		gauge("sandboxd_interpreters_waiting", "Interpreters that wait for a job.", func() float64 { n, _, _ := s.interpreters.count(); return float64(n) }),
		gauge("sandboxd_interpreters_memory_bytes", "Memory that they have.", func() float64 { _, bytes, _ := s.interpreters.count(); return float64(bytes) }),
		gauge("sandboxd_ready", "1 when the daemon can do its job.", func() float64 { return truth(len(s.troubles()) == 0) }),
		gauge("sandboxd_audit_broken", "1 when the log can't be written and nothing is released.", func() float64 { return truth(s.log.Err() != nil) }),
		gauge("sandboxd_audit_sequence", "The last record that is on the disk.", func() float64 { return float64(s.log.Last()) }),
		gauge("sandboxd_policy_stale", "1 when the policy on disk couldn't be activated.", func() float64 { return truth(s.engine.Status().Stale) }),
	)
	return m
}

func (m *metrics) finished(action policy.Action, outcome Outcome, took time.Duration) {
	if action != policy.ActionExec && action != policy.ActionRun {
		return
	}
	m.execs.WithLabelValues(string(action), string(outcome)).Inc()
	m.seconds.WithLabelValues(string(action)).Observe(took.Seconds())
}

// file counts a file operation; fault is nil when it was done.
func (m *metrics) file(operation policy.FileOperation, fault *Error, moved int64) {
	code := "OK"
	if fault != nil {
		code = fault.Code
	}
	m.files.WithLabelValues(string(operation), code).Inc()
	m.content.WithLabelValues(string(operation)).Add(float64(moved))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
