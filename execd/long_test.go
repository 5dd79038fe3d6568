package execd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// longInputs are more than is kept in memory, with what a decoder of Go would change.
var longInputs = `{"a": "\ud800é", "a": [1.0, 12345678901234567890123], "text": "` + strings.Repeat("0123456789abcdé ", 100_000) + `"}`

// sendLong posts a body of unknown length, as a client does that streams.
func (d *daemon) sendLong(t *testing.T, body io.Reader, accept string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "POST", "http://sandboxd/v1/run", body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = -1
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", accept)
	return d.finish(t, d.Client, request)
}

// spoolIsFree waits until nothing is kept any more: an answer is written before its exec has gone.
func (d *daemon) spoolIsFree(t *testing.T) {
	t.Helper()
	awaited(t, "a free spool", func() bool { return d.service.spool.Held() == 0 && d.service.bodies.held.Load() == 0 })
}

// TestLongRun: inputs and value that are too long for memory are what came and what was returned, in each language, whole and as events.
func TestLongRun(t *testing.T) {
	d := serve(t, testConfig(t))
	for _, row := range []struct{ language, code string }{
		{"python", "_return = [inputs, float('nan')]"},
		{"node", "_return = [inputs]"},
		{"bash", "{ printf '[\\n'; cat <&$SANDBOXD_INPUTS_FD; printf '\\n]\\n'; } >&$SANDBOXD_RESULT_FD"},
	} {
		if _, err := exec.LookPath(row.language); row.language != "python" && err != nil {
			t.Logf("no %s here", row.language)
			continue
		}
		body := fmt.Sprintf(`{"language":%q,"inputs":%s,"code":%s,"timeoutSeconds":60}`, row.language, longInputs, quoted(row.code))
		reply := d.sendLong(t, strings.NewReader(body), "").reply(t)
		mustBe(t, reply, OutcomeOK)
		checkLong(t, row.language, reply.ReturnValue)
		if wanted := map[string]string{"python": "replaced"}[row.language]; wanted != "" && reply.ReturnValueHow != wanted {
			t.Errorf("%s: how %s (%s)", row.language, reply.ReturnValueHow, reply.ReturnValueReason)
		}
		// With its length said before, and as events.
		events := d.do(t, "POST", "/v1/run", body, "Accept", ndjson)
		results := 0
		lines := bufio.NewReader(bytes.NewReader(events.body))
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var event Event
			if err := json.Unmarshal(line, &event, wire); err != nil {
				t.Fatalf("%s: %.200s: %v", row.language, line, err)
			}
			if event.Event == "result" {
				results++
				checkLong(t, row.language+", events", event.ReturnValue)
			}
			if event.Event == "exit" && (event.Reply == nil || event.Reply.ReturnValue != nil || event.Reply.ReturnValueHow == "") {
				t.Errorf("%s: the last event is %.300s", row.language, line)
			}
		}
		if results != 1 {
			t.Errorf("%s: %d results in %.300s", row.language, results, events.body)
		}
	}
	d.spoolIsFree(t)
	want := sha256.Sum256([]byte(longInputs))
	for _, record := range readLog(t, d.service.config) {
		if record.Type == audit.TypeRelease && (record.Request.Inputs == nil || record.Request.Inputs.Bytes != int64(len(longInputs)) || record.Request.Inputs.Digest != "sha256:"+hex.EncodeToString(want[:])) {
			t.Errorf("the record has the inputs as %+v", record.Request.Inputs)
		}
	}
}

// checkLong holds that a value is a list with the inputs in it.
func checkLong(t *testing.T, name string, value []byte) {
	t.Helper()
	var got []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(value, &got, wire); err != nil || len(got) == 0 || got[0].Text != strings.Repeat("0123456789abcdé ", 100_000) {
		t.Errorf("%s: the value is %.100s… (%d bytes): %v", name, value, len(value), err)
	}
}

// TestLongRunWarm: an interpreter that waits takes them too.
func TestLongRunWarm(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Size: 1}))
	untilFull(t, s)
	body := `{"inputs":` + longInputs + `,"code":"_return = inputs['text']"}`
	request, _, inputs, err := s.ReadRun(iotest.HalfReader(strings.NewReader(body)))
	if err != nil || inputs == nil {
		t.Fatal(err)
	}
	defer inputs.Close()
	request.Caller = Self()
	reply := s.Exec(t.Context(), request, Options{Inputs: inputs, LongValue: true})
	defer reply.Close()
	mustBe(t, reply, OutcomeOK)
	var whole bytes.Buffer
	if err := reply.WriteJSON(&whole); err != nil {
		t.Fatal(err)
	}
	var again Reply
	if err := json.Unmarshal(whole.Bytes(), &again, wire); err != nil || reply.Value() == nil || int64(len(again.ReturnValue)) != reply.Value().Len() {
		t.Errorf("%v, value %v of %d bytes", err, reply.Value(), len(again.ReturnValue))
	}
	if reply.Interpreter != InterpreterWarm {
		t.Errorf("%s", reply.Interpreter)
	}
}

// TestLongRunFaults: each is a clear answer, and leaves nothing behind.
func TestLongRunFaults(t *testing.T) {
	c := testConfig(t)
	c.InputBytes, c.ValueBytes, c.SpoolBytes = 2<<20, 1<<20, 3<<20
	d := serve(t, c)
	long := strings.Repeat("x", 1<<20)
	for _, row := range []struct {
		name, body, accept string
		status             int
		code, field, text  string
	}{
		{"too large", `{"code":"","inputs":"` + long + long + `"}`, "", 413, "TOO_LARGE", "inputs", "inputs: more than 2097152 bytes; serve --input-bytes gives more"},
		{"too large beside", `{"inputs":1,"code":"` + strings.Repeat("x", 9<<20) + `"}`, "", 413, "TOO_LARGE", "", "more than 8388608 bytes beside its inputs; serve --body-bytes"},
		{"wrong at its end", `{"code":"","inputs":["` + long + `",]}`, "", 400, "BAD_REQUEST", "inputs", "inputs: not JSON: ']' where a value begins, at byte 1048580"},
		{"not UTF-8", `{"code":"","inputs":"` + long + "\xff" + `"}`, "", 400, "BAD_REQUEST", "inputs", "inputs: not UTF-8"},
		{"too deep", `{"code":"","inputs":["` + long + `",` + strings.Repeat("[", 1000), "", 400, "BAD_REQUEST", "inputs", "more than 900 levels deep"},
		{"ends in its inputs", `{"code":"","inputs":["` + long, "", 400, "BAD_REQUEST", "inputs", "the body ends in the middle of them"},
		{"ends behind them", `{"code":"","inputs":"` + long + `"`, "", 400, "BAD_REQUEST", "", "not JSON: unexpected EOF"},
		{"twice", `{"code":"","inputs":"` + long + `","inputs":1}`, "", 400, "BAD_REQUEST", "inputs", "duplicate key"},
		{"unknown key", `{"code":"","inputs":"` + long + `","input":1}`, "", 400, "BAD_REQUEST", "input", "nearest is inputs"},
		{"denied", `{"code":"","inputs":"` + long + `","securityContext":{"privileged":true}}`, "", 403, "", "", ""},
	} {
		got := d.sendLong(t, strings.NewReader(row.body), "")
		if got.status != row.status {
			t.Errorf("%s: %d %.300s", row.name, got.status, got.body)
			continue
		}
		if row.code != "" {
			if e := got.failure(t); e.Code != row.code || e.Field != row.field || !strings.Contains(e.Message, row.text) {
				t.Errorf("%s: %+v", row.name, e)
			}
		}
		d.spoolIsFree(t)
	}
	// By what is said before: nothing of it is read.
	never, neverEnd := io.Pipe()
	defer neverEnd.Close()
	request, _ := http.NewRequestWithContext(t.Context(), "POST", "http://sandboxd/v1/run", never)
	request.ContentLength = 100 << 20
	request.Header.Set("Content-Type", "application/json")
	if e := d.finish(t, d.Client, request).failure(t); e.Code != "TOO_LARGE" || !strings.Contains(e.Message, "--input-bytes") {
		t.Errorf("%+v", e)
	}
	// A client who goes away in the middle.
	ctx, cancel := context.WithCancel(t.Context())
	body, end := io.Pipe()
	gone := make(chan error, 1)
	go func() {
		request, _ := http.NewRequestWithContext(ctx, "POST", "http://sandboxd/v1/run", body)
		request.Header.Set("Content-Type", "application/json")
		response, err := d.Client.Do(request)
		if err == nil {
			response.Body.Close()
		}
		gone <- err
	}()
	_, _ = io.WriteString(end, `{"code":"","inputs":"`+long) // its end is the other's to close
	awaited(t, "inputs on the disk", func() bool { return d.service.spool.Held() > 0 })
	cancel()
	end.CloseWithError(context.Canceled) // the client's transport may be reading it, and wait for that
	if err := <-gone; err == nil {
		t.Error("the client that went away has an answer")
	}
	d.spoolIsFree(t)
	// The value is what doesn't fit.
	reply := d.sendLong(t, strings.NewReader(`{"code":"_return = inputs + inputs","inputs":"`+long+`"}`), "").reply(t)
	mustBe(t, reply, OutcomeOK)
	if reply.ReturnValueHow != "failed" || !strings.Contains(reply.ReturnValueReason, "at most 1048576") || string(reply.ReturnValue) != "null" {
		t.Errorf("%s %s: %s", reply.ReturnValueHow, reply.ReturnValue, reply.ReturnValueReason)
	}
	d.spoolIsFree(t)
}

// TestLongRunBudget: what is kept together is bounded. Inputs beyond it are turned away, and a value says why there is none.
func TestLongRunBudget(t *testing.T) {
	c := testConfig(t)
	c.InputBytes, c.ValueBytes, c.SpoolBytes = 2<<20, 2<<20, 2<<20
	d := serve(t, c)
	long := strings.Repeat("x", 1500<<10)
	body, end := io.Pipe()
	first := make(chan answer, 1)
	go func() { first <- d.sendLong(t, body, "") }()
	_, _ = io.WriteString(end, `{"code":"_return = inputs","inputs":"`+long)
	awaited(t, "inputs on the disk", func() bool { return d.service.spool.Held() > 1<<20 })
	got := d.sendLong(t, strings.NewReader(`{"code":"","inputs":"`+long+`"}`), "")
	if e := got.failure(t); e.Code != "BUSY" || got.header.Get("Retry-After") != "1" || !strings.Contains(e.Message, "--spool-bytes") {
		t.Errorf("beside another's: %+v", e)
	}
	_, _ = io.WriteString(end, `"}`)
	end.Close()
	reply := (<-first).reply(t)
	mustBe(t, reply, OutcomeOK)
	if reply.ReturnValueHow != "failed" || !strings.Contains(reply.ReturnValueReason, "--spool-bytes") {
		t.Errorf("%s: %s", reply.ReturnValueHow, reply.ReturnValueReason)
	}
	d.spoolIsFree(t)
	reply = d.sendLong(t, strings.NewReader(`{"code":"_return = 'y' * 1000000"}`), "").reply(t)
	if mustBe(t, reply, OutcomeOK); len(reply.ReturnValue) != 1_000_002 {
		t.Errorf("%d bytes: %s", len(reply.ReturnValue), reply.ReturnValueReason)
	}
}

// TestLongInputsUnread: a program that doesn't read them isn't waited for by anybody.
func TestLongInputsUnread(t *testing.T) {
	s := start(t, testConfig(t))
	text := s.spool.Text()
	defer text.Close()
	if _, err := io.WriteString(text, `"`+strings.Repeat("x", 2*spool.InMemory)+`"`); err != nil {
		t.Fatal(err)
	}
	bulk := text.Bulk()
	r := policy.Request{Action: policy.ActionRun, Caller: Self(), Limits: policy.Limits{TimeoutSeconds: 20}, Program: policy.Program{Language: "bash", Code: "exit 3", Bulk: &bulk}}
	mustBe(t, s.Exec(t.Context(), r, Options{Inputs: text}), OutcomeError)
}
