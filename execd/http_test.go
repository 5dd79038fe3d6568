package execd

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHTTPExec(t *testing.T) {
	d := serve(t, testConfig(t))
	got := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["sh","-c","cat; echo err >&2; exit 3"],"stdin":"héllo"}}`)
	reply := got.reply(t)
	stdout, stderr := reply.Output()
	if got.status != 200 || reply.Outcome != OutcomeError || *reply.ExitCode != 3 || string(stdout) != "héllo" || string(stderr) != "err\n" || len(reply.Verdict.Rows) != 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
	rows := d.do(t, "POST", "/v1/exec?rows=true", `{"command":{"argv":["true"]}}`).reply(t)
	if len(rows.Verdict.Rows) == 0 || len(rows.Verdict.Rows) != rows.Verdict.Evidence.Kernel+rows.Verdict.Evidence.Probe+rows.Verdict.Evidence.Report {
		t.Errorf("rows = %d, evidence %+v", len(rows.Verdict.Rows), rows.Verdict.Evidence)
	}
	denied := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]},"securityContext":{"privileged":true}}`)
	if reply := denied.reply(t); denied.status != 403 || reply.Outcome != OutcomeDenied || reply.ExitCode != nil || len(reply.Reasons) == 0 {
		t.Errorf("%d %s", denied.status, denied.body)
	}
	dry := d.do(t, "POST", "/v1/decide", `{"action":"exec","command":{"argv":["true"]},"securityContext":{"privileged":true}}`)
	var decided DecideReply
	if err := json.Unmarshal(dry.body, &decided); err != nil || dry.status != 200 || decided.Decision.Allow || len(decided.Decision.Reasons) == 0 {
		t.Errorf("%d %s (%v)", dry.status, dry.body, err)
	}
}

func TestBusyAtOnce(t *testing.T) {
	c := testConfig(t)
	c.MaxRunning, c.MaxWaiting = 1, 1
	d := serve(t, c)
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		group.Go(func() {
			request, _ := http.NewRequestWithContext(ctx, "POST", "http://sandboxd/v1/exec", strings.NewReader(`{"command":{"argv":["sleep","30"]}}`))
			request.Header.Set("Content-Type", "application/json")
			if response, err := d.Do(request); err == nil {
				response.Body.Close()
			}
		})
	}
	for deadline := time.Now().Add(10 * time.Second); d.service.queue.running() != 1 || d.service.queue.waiting.Load() != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the queue doesn't fill")
		}
		time.Sleep(time.Millisecond) // polls the state that the test is about
	}
	began := time.Now()
	got := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`)
	took := time.Since(began)
	if e := got.failure(t); got.status != 429 || e.Code != "BUSY" || e.RetryAfterSeconds != 1 || got.header.Get("Retry-After") != "1" || took > 10*time.Second { // and not after the queue's patience
		t.Errorf("%d %s after %s", got.status, got.body, took)
	}
	if got := d.do(t, "GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz of a busy daemon: %d", got.status)
	}
	cancel()
	group.Wait()
}

func TestHTTPStream(t *testing.T) {
	d := serve(t, testConfig(t))
	for name, header := range map[string][]string{"field": nil, "header": {"Accept", "application/x-ndjson"}} {
		body := `{"stream":true,"command":{"argv":["sh","-c","echo é; printf '\\377' >&2; exit 4"]}}`
		if header != nil {
			body = strings.Replace(body, `"stream":true,`, "", 1)
		}
		got := d.do(t, "POST", "/v1/exec", body, header...)
		list := events(t, got.body)
		last := list[len(list)-1]
		var out, err []byte
		for _, e := range list[1 : len(list)-1] {
			switch e.Event {
			case "stdout":
				out = append(out, streamBytes(e.Data, e.DataBase64)...)
			case "stderr":
				err = append(err, streamBytes(e.Data, e.DataBase64)...)
			default:
				t.Errorf("%s: event %q in the middle", name, e.Event)
			}
		}
		if got.status != 200 || got.header.Get("Content-Type") != ndjson || list[0].Event != "decision" || !list[0].Decision.Allow {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if last.Event != "exit" || last.Reply.Outcome != OutcomeError || *last.Reply.ExitCode != 4 || last.Reply.Stdout != nil || string(out) != "é\n" || string(err) != "\xff" {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	denied := d.do(t, "POST", "/v1/exec", `{"stream":true,"command":{"argv":["true"]},"securityContext":{"privileged":true}}`)
	if list := events(t, denied.body); denied.status != 403 || len(list) != 2 || list[1].Reply.Outcome != OutcomeDenied {
		t.Errorf("%d %s", denied.status, denied.body)
	}
}

// TestStreamComesAsItIsWritten: the first line is here while the program still runs.
func TestStreamComesAsItIsWritten(t *testing.T) {
	d := serve(t, testConfig(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", "http://sandboxd/v1/exec",
		strings.NewReader(`{"stream":true,"command":{"argv":["sh","-c","echo first; sleep 60"]}}`))
	request.Header.Set("Content-Type", "application/json")
	response, err := d.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	buffer := make([]byte, 4096)
	var seen []byte
	for !bytes.Contains(seen, []byte(`"first\n"`)) {
		n, err := response.Body.Read(buffer)
		seen = append(seen, buffer[:n]...)
		if err != nil {
			t.Fatalf("%v after %s", err, seen)
		}
	}
	// The client goes away: the exec is cancelled and the log says so.
	cancel()
	d.waitFor(t, `sandboxd_execs_total{action="exec",outcome="cancelled"} 1`)
}
