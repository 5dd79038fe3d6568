package opensandbox

import (
	"encoding/json/v2"
	"net/http"
	"sync"
	"time"
)

// gauge remembers when a sandbox's processor time was looked at last.
type gauge struct {
	mu   sync.Mutex // guards what follows
	at   time.Time
	used time.Duration
}

// wireMetrics is what a sandbox uses of what it may.
type wireMetrics struct {
	CPUCount   float64 `json:"cpu_count"`
	CPUPercent float64 `json:"cpu_used_pct"`
	TotalMiB   float64 `json:"mem_total_mib"`
	UsedMiB    float64 `json:"mem_used_mib"`
	Timestamp  int64   `json:"timestamp"`
}

// metrics reads a sandbox's own use. The share of the processors is that since the last look, or since the sandbox was made: nobody waits for a sample.
func (f *Facade) metrics(box *sandbox) (wireMetrics, error) {
	used, err := f.service.SandboxUsage(box.inner, box.caller)
	if err != nil {
		return wireMetrics{}, err
	}
	g, now := &box.gauge, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at.IsZero() {
		g.at = box.created
	}
	m := wireMetrics{CPUCount: box.limits.CPU, TotalMiB: float64(box.limits.MemoryBytes) / (1 << 20), Timestamp: now.UnixMilli()}
	if passed := now.Sub(g.at); passed > 0 {
		m.CPUPercent = min(max(float64(used.CPU-g.used)/float64(passed)/box.limits.CPU*100, 0), 100)
	}
	m.UsedMiB = min(float64(used.MemoryBytes)/(1<<20), m.TotalMiB)
	g.at, g.used = now, used.CPU
	return m, nil
}

func (f *Facade) getMetrics(x *exchange) error {
	m, err := f.metrics(x.box)
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, m)
	return nil
}

// watchMetrics streams them, one a second, until the client goes or the sandbox ends.
func (f *Facade) watchMetrics(x *exchange) error {
	m, err := f.metrics(x.box)
	if err != nil {
		return err
	}
	header := x.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		x.bounded(func() { _, err = x.w.Write(append(text, "\n\n"...)) })
		if err != nil {
			return nil // the client has gone
		}
		select {
		case <-ticker.C:
		case <-x.r.Context().Done():
			return nil
		case <-x.box.life.Done():
			return nil
		}
		if m, err = f.metrics(x.box); err != nil {
			return nil // the sandbox has ended
		}
	}
}
