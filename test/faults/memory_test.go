package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMemoryIsBounded: the memory of a daemon is bounded by bytes and not by the number of requests, whatever is large: their bodies, what a parser makes of
// them, or the output that is kept for their answers. What doesn't fit is turned away at once and takes nothing from what does.
func TestMemoryIsBounded(t *testing.T) {
	needRoot(t)
	const mebibyte = 1 << 20
	const own = 64 // MiB for all else, and for garbage
	large := strings.Repeat("x", 7*mebibyte)
	for _, row := range []struct {
		name, path, body string
		streams          string // the media type that is asked for
		flags            string
		most             int // MiB beyond what the daemon took before
		all              bool
	}{
		{"the largest bodies, and nothing said", "/v1/exec", `{"command":{"argv":["true"],"stdin":"` + strings.Repeat("x", 8*mebibyte-64) + `"}}`, "", "--pool 2", 256 + own, false},
		// 64 MiB hold three bodies on their way at once.
		{"large bodies", "/v1/exec", `{"command":{"argv":["true"],"stdin":"` + large + `"}}`, "", "--request-memory 64MiB --output-memory 320MiB", 64 + own, false},
		{"large inputs", "/v1/run", `{"language":"python","code":"","inputs":{"x":"` + large + `"}}`, "", "--request-memory 64MiB --output-memory 320MiB", 64 + own, false},
		// Each makes 84 times its length of garbage before anybody can count its rules.
		{"many rules", "/v1/exec", `{"command":{"argv":["true"]},"network":{"egress":[{}` + strings.Repeat(",{}", 80_000) + `]}}`, "", "--request-memory 64MiB --output-memory 320MiB", 64 + own, false},
		// Three at once have 9 × 4 MiB each; as many others wait as may, and all of those are answered.
		{"large output", "/v1/exec", `{"command":{"argv":["head","-c","6000000","/dev/zero"]},"limits":{"outputBytes":4194304}}`, "", "--request-memory 64MiB --output-memory 120MiB --queue-timeout 10m", 120 + own, true},
		{"large output, streamed", "/v1/exec", `{"command":{"argv":["head","-c","6000000","/dev/zero"]},"limits":{"outputBytes":4194304}}`, "application/x-ndjson", "--request-memory 64MiB --output-memory 120MiB --queue-timeout 10m", 120 + own, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := start(t, binaries(t, ""), stateDir(t), row.flags)
			for range 3 { // what is made once and kept
				d.ask(t, row.path, `{"command":{"argv":["true"]}}`, "")
			}
			before := d.memory(t, "VmHWM")
			const requests = 90
			answers := make([]heard, requests)
			var all sync.WaitGroup
			for i := range requests {
				all.Go(func() { answers[i] = d.ask(t, row.path, row.body, row.streams) })
			}
			all.Wait()
			took := (d.memory(t, "VmHWM") - before) >> 10
			count := map[int]int{}
			for _, answer := range answers {
				count[answer.status]++
				if answer.status == http.StatusTooManyRequests && (answer.retry != "1" || !strings.Contains(answer.text, `"BUSY"`)) {
					t.Errorf("turned away with Retry-After %q and %s", answer.retry, answer.text)
				}
			}
			t.Logf("%v, %d MiB", count, took)
			if took > row.most {
				t.Errorf("took %d MiB, want %d at most", took, row.most)
			}
			if served := count[200] + count[400]; served == 0 || served+count[429] != requests || row.all && count[200] < 16+64 {
				t.Errorf("statuses %v", count)
			}
			// All of it was given back.
			for _, name := range []string{"sandboxd_request_memory_bytes", "sandboxd_output_memory_bytes"} {
				d.awaitMetric(t, name, func(value float64) bool { return value == 0 })
			}
			d.stop(t)
		})
	}
}

func (d *daemon) awaitMetric(t *testing.T, name string, is func(float64) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(d.metric(t, name)); time.Sleep(5 * time.Millisecond) { // polls what the test is about
		if time.Now().After(deadline) {
			t.Fatalf("%s stays at %v", name, d.metric(t, name))
		}
	}
}

// heard is an answer as it comes over the wire.
type heard struct {
	status int
	retry  string
	text   string // its beginning
	took   time.Duration
	err    error
}

// ask posts a body; of the answer only the beginning is kept.
func (d *daemon) ask(t *testing.T, path, body, accept string) heard {
	return d.send(t.Context(), path, strings.NewReader(body), accept)
}

func (d *daemon) send(ctx context.Context, path string, body io.Reader, accept string) (got heard) {
	began := time.Now()
	defer func() { got.took = time.Since(began) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandboxd"+path, body)
	if err != nil {
		return heard{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", accept)
	response, err := d.client.Do(request)
	if err != nil {
		return heard{err: err}
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, err = io.CopyN(&text, response.Body, 1<<10)
	if err == nil || errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, response.Body)
	}
	return heard{status: response.StatusCode, retry: response.Header.Get("Retry-After"), text: text.String(), err: err}
}

// TestFullMemory: while bodies that don't come to their end have all memory of requests, the next one is turned away before any of it is read, and what
// has no large body is served. The memory is free again when they are gone, whether their length was said before or not.
func TestFullMemory(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t), "--request-memory 24MiB")
	small := `{"command":{"argv":["true"]}}`
	for name, length := range map[string]bool{"known length": true, "unknown length": false} {
		held, end := io.Pipe()
		sent := make(chan heard, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			var body io.Reader = held
			request := int64(-1)
			if length {
				request = 7 << 20
			}
			sent <- d.sendLength(ctx, body, request)
		}()
		beginning := `{"command":{"argv":["true"],"stdin":"`
		go func() { _, _ = io.WriteString(end, beginning+strings.Repeat("x", 7<<20-len(beginning)-1)) }()
		d.awaitMetric(t, "sandboxd_request_memory_bytes", func(value float64) bool { return value >= 20<<20 })
		got := d.ask(t, "/v1/exec", `{"command":{"argv":["true"],"stdin":"`+strings.Repeat("x", 4<<20)+`"}}`, "")
		if got.status != 429 || got.retry != "1" || !strings.Contains(got.text, "memory") {
			t.Errorf("%s: beside it: %+v, want 429 that says why", name, got)
		}
		t.Logf("%s: turned away in %v (%v)", name, got.took, got.err)
		if got := d.ask(t, "/v1/exec", small, ""); got.status != 200 {
			t.Errorf("%s: a small one beside it: %+v", name, got)
		}
		cancel()
		end.Close()
		<-sent
		d.awaitMetric(t, "sandboxd_request_memory_bytes", func(value float64) bool { return value == 0 })
	}
	// What would never fit is no question of time.
	if got := d.ask(t, "/v1/exec", `{"command":{"argv":["true"]},"network":{"egress":[{}`+strings.Repeat(",{}", 200_000)+`]}}`, ""); got.status != 413 {
		t.Errorf("a body that no memory is enough for: %+v, want 413", got)
	}
	got := d.ask(t, "/v1/exec", fmt.Sprintf(`{"command":{"argv":["true"]},"limits":{"outputBytes":%d}}`, 1<<26), "")
	if got.status != 200 {
		t.Errorf("as much output as policy allows: %+v", got)
	}
	d.stop(t)
	tight := start(t, binaries(t, ""), stateDir(t), "--output-memory 16MiB")
	got = tight.ask(t, "/v1/exec", fmt.Sprintf(`{"command":{"argv":["true"]},"limits":{"outputBytes":%d}}`, 1<<26), "")
	if got.status != 403 || !strings.Contains(got.text, "--output-memory") || !strings.Contains(got.text, "limits.outputBytes") {
		t.Errorf("more output than there is memory for: %+v, want 403 that says what to do", got)
	}
	tight.stop(t)
}

// sendLength posts a body whose length is said before, or -1.
func (d *daemon) sendLength(ctx context.Context, body io.Reader, length int64) heard {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandboxd/v1/exec", body)
	if err != nil {
		return heard{err: err}
	}
	request.ContentLength = length
	request.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		return heard{err: err}
	}
	defer response.Body.Close()
	return heard{status: response.StatusCode}
}
