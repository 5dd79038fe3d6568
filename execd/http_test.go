package execd

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// daemon is a service behind its socket, as clients meet it.
type daemon struct {
	*http.Client
	service *Service
	path    string
	api     openAPI
	// stop ends it gracefully and gives Serve's answer.
	stop func() error
}

func serve(t testing.TB, c Config) *daemon {
	t.Helper()
	s, err := New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{service: s, path: filepath.Join(dir, "run", "s")}
	l, err := Listen(d.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.path)
	}}
	d.Client = &http.Client{Transport: transport, Timeout: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	d.stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		transport.CloseIdleConnections()
		os.RemoveAll(dir)
	})
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d.api); err != nil {
		t.Fatal(err)
	}
	return d
}

// answer is a response, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) reply(t testing.TB) Reply {
	t.Helper()
	var r Reply
	if err := json.Unmarshal(a.body, &r, json.RejectUnknownMembers(true), wire); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return r
}

func (a answer) failure(t testing.TB) Error {
	t.Helper()
	var e Error
	if err := json.Unmarshal(a.body, &e, json.RejectUnknownMembers(true)); err != nil || e.Code == "" || e.Message == "" {
		t.Fatalf("%d %s: no error shape (%v)", a.status, a.body, err)
	}
	if statuses[e.Code] != a.status {
		t.Errorf("code %s with status %d", e.Code, a.status)
	}
	return e
}

// do sends a request and checks that the status is one that the API's description has.
func (d *daemon) do(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://sandboxd"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := d.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ = strings.Cut(path, "?")
	if strings.HasPrefix(path, "/v1/sandboxes/") {
		path = "/v1/sandboxes/{id}"
	}
	if operation, ok := d.api.Paths[path][strings.ToLower(method)]; ok && operation.Responses[strconv.Itoa(response.StatusCode)] == nil {
		t.Errorf("%s %s answers %d, which openapi.json doesn't have", method, path, response.StatusCode)
	}
	return answer{response.StatusCode, response.Header, data}
}

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

// TestBadInput: each gets a clear error or outcome, and the daemon goes on.
func TestBadInput(t *testing.T) {
	d := serve(t, testConfig(t))
	argv := func(list ...string) string {
		data, err := json.Marshal(map[string]any{"command": map[string]any{"argv": list}})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, row := range []struct {
		name, body string
		status     int
		// field of the error, or the outcome when the status is 200.
		want string
	}{
		{"1 MB argument", argv("echo", strings.Repeat("x", 1<<20)), 400, "command.argv[1]"},
		{"1 MB in many arguments", argv(slices.Repeat([]string{strings.Repeat("x", 100_000)}, 12)...), 400, "command"},
		{"NUL in argv", `{"command":{"argv":["echo","a\u0000b"]}}`, 400, "command.argv[1]"},
		{"empty argv", `{"command":{"argv":[]}}`, 400, "command.argv"},
		{"empty argv[0]", `{"command":{"argv":[""]}}`, 400, "command.argv[0]"},
		{"no argv", `{"command":{}}`, 400, "command.argv"},
		{"unknown field", `{"command":{"argv":["true"]},"privileged":true}`, 400, "privileged"},
		{"unknown field inside", `{"command":{"argv":["true"]},"securityContext":{"Privileged":false}}`, 400, "securityContext.Privileged"},
		{"duplicate key", `{"command":{"argv":["true"]},"limits":{"pids":1,"pids":2}}`, 400, "limits.pids"},
		{"2^63 timeout", `{"command":{"argv":["true"]},"limits":{"timeoutSeconds":9223372036854775808}}`, 400, "limits.timeoutSeconds"},
		{"negative timeout", `{"command":{"argv":["true"]},"limits":{"timeoutSeconds":-1}}`, 400, "limits.timeoutSeconds"},
		{"non-UTF-8", "{\"command\":{\"argv\":[\"\xff\"]}}", 400, "command.argv[0]"},
		{"trailing data", `{"command":{"argv":["true"]}} {}`, 400, ""},
		{"no JSON", `hello`, 400, ""},
		{"empty body", ` `, 400, ""},
		{"relative cwd", `{"command":{"argv":["true"],"cwd":"tmp"}}`, 400, "command.cwd"},
		{"someone else's sandbox", `{"command":{"argv":["true"]},"sandbox":"00112233445566778899aabbccddeeff"}`, 404, "sandbox"},
		{"missing program", argv("no-such-program"), 200, "not_started ENOENT"},
		{"directory as program", argv("/usr/bin"), 200, "not_started EACCES"},
		{"cwd that isn't there", `{"command":{"argv":["true"],"cwd":"/no/such"}}`, 200, "not_started ENOENT"},
		{"cwd that is a file", `{"command":{"argv":["true"],"cwd":"/etc/passwd"}}`, 200, "not_started ENOTDIR"},
		{"script without interpreter", argv("sh", "-c", "printf '#!/no/such/interpreter\\n' > /work/x && chmod +x /work/x && exec /work/x"), 200, "error "},
	} {
		t.Run(row.name, func(t *testing.T) {
			began := time.Now()
			got := d.do(t, "POST", "/v1/exec", row.body)
			if got.status != row.status {
				t.Fatalf("%d %.300s, want %d", got.status, got.body, row.status)
			}
			if got.status != 200 {
				if e := got.failure(t); e.Field != row.want {
					t.Errorf("field %q (%s), want %q", e.Field, e.Message, row.want)
				}
			} else if reply := got.reply(t); string(reply.Outcome)+" "+reply.Errno != row.want {
				t.Errorf("%s, want %s", got.body, row.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
	mustBe(t, d.do(t, "POST", "/v1/exec", argv("true")).reply(t), OutcomeOK)
}

// TestScriptWithoutInterpreter is one more of the bad inputs: the script is the target itself, in a sandbox that has it.
func TestScriptWithoutInterpreter(t *testing.T) {
	d := serve(t, testConfig(t))
	box := d.makeSandbox(t)
	exec := func(argv string) Reply {
		return d.do(t, "POST", "/v1/exec", fmt.Sprintf(`{"sandbox":"%s","command":{"argv":%s}}`, box.ID, argv)).reply(t)
	}
	mustBe(t, exec(`["sh","-c","printf '#!/no/such/interpreter\\n' > /work/x && printf junk > /work/y && chmod +x /work/x /work/y"]`), OutcomeOK)
	for path, errno := range map[string]string{"/work/x": "ENOENT", "/work/y": "ENOEXEC"} {
		reply := exec(`["` + path + `"]`)
		mustBe(t, reply, OutcomeNotStarted)
		if reply.Errno != errno || reply.Message == "" {
			t.Errorf("%s: %s, %q; want %s", path, reply.Errno, reply.Message, errno)
		}
	}
}

func (d *daemon) makeSandbox(t testing.TB) Sandbox {
	t.Helper()
	made := d.do(t, "POST", "/v1/sandboxes", "")
	var box Sandbox
	if err := json.Unmarshal(made.body, &box, json.RejectUnknownMembers(true)); err != nil || made.status != 201 {
		t.Fatalf("%d %s: %v", made.status, made.body, err)
	}
	return box
}

func TestHTTPErrors(t *testing.T) {
	c := testConfig(t)
	c.BodyBytes = 4096
	d := serve(t, c)
	const good = `{"command":{"argv":["true"]}}`
	for _, row := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code, field              string
	}{
		{"no such path", "GET", "/v1/nothing", "", nil, 404, "NOT_FOUND", ""},
		{"root", "GET", "/", "", nil, 404, "NOT_FOUND", ""},
		{"method", "GET", "/v1/exec", "", nil, 405, "METHOD_NOT_ALLOWED", ""},
		{"method of a path with two", "PUT", "/v1/sandboxes", "", nil, 405, "METHOD_NOT_ALLOWED", ""},
		{"unknown query", "POST", "/v1/exec?row=true", good, nil, 400, "BAD_REQUEST", "query.row"},
		{"query twice", "POST", "/v1/exec?rows=true&rows=false", good, nil, 400, "BAD_REQUEST", "query.rows"},
		{"query value", "POST", "/v1/exec?rows=yes", good, nil, 400, "BAD_REQUEST", "query.rows"},
		{"query where none is", "GET", "/healthz?verbose", "", nil, 400, "BAD_REQUEST", "query.verbose"},
		{"query that can't be read", "GET", "/healthz?%zz", "", nil, 400, "BAD_REQUEST", "query"},
		{"content type", "POST", "/v1/exec", good, []string{"Content-Type", "text/plain"}, 400, "BAD_REQUEST", "Content-Type"},
		{"content type of run", "POST", "/v1/run", `{"code":"1"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 400, "BAD_REQUEST", "Content-Type"},
		{"content encoding", "POST", "/v1/exec", good, []string{"Content-Encoding", "gzip"}, 400, "BAD_REQUEST", "Content-Encoding"},
		{"too large", "POST", "/v1/exec", strings.Repeat(" ", 5000) + good, nil, 413, "TOO_LARGE", ""},
		{"sandbox with fields", "POST", "/v1/sandboxes", `{"name":"x"}`, nil, 400, "BAD_REQUEST", ""},
		{"no such sandbox", "GET", "/v1/sandboxes/x", "", nil, 404, "NOT_FOUND", "sandbox"},
		{"delete no such sandbox", "DELETE", "/v1/sandboxes/x", "", nil, 404, "NOT_FOUND", "sandbox"},
		{"decide without action", "POST", "/v1/decide", good, nil, 400, "BAD_REQUEST", "action"},
	} {
		got := d.do(t, row.method, row.path, row.body, row.header...)
		e := got.failure(t)
		if got.status != row.status || e.Code != row.code || e.Field != row.field {
			t.Errorf("%s: %d %s, want %d %s %q", row.name, got.status, got.body, row.status, row.code, row.field)
		}
		if allow := got.header.Get("Allow"); (row.status == 405) != (allow != "") {
			t.Errorf("%s: Allow %q", row.name, allow)
		}
	}
	for _, header := range []string{"application/json; charset=utf-8", "APPLICATION/JSON"} {
		if got := d.do(t, "POST", "/v1/exec", good, "Content-Type", header); got.status != 200 {
			t.Errorf("Content-Type %s: %d %s", header, got.status, got.body)
		}
	}
}

func TestNoCallerNoAnswer(t *testing.T) {
	s := start(t, testConfig(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.Handler(), ConnContext: withCaller, ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + l.Addr().String() + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 401 {
		t.Errorf("a connection without credentials got %d", response.StatusCode)
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
	if e := got.failure(t); got.status != 429 || e.Code != "BUSY" || e.RetryAfterSeconds != 1 || got.header.Get("Retry-After") != "1" || took > time.Second {
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

// waitFor waits until the metrics have a line.
func (d *daemon) waitFor(t testing.TB, line string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := d.do(t, "GET", "/metrics", "")
		if strings.Contains(string(got.body), line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in\n%s", line, got.body)
		}
		time.Sleep(5 * time.Millisecond) // polls the state that the test is about
	}
}

func TestSandboxesLiveUntilDeleted(t *testing.T) {
	c := testConfig(t)
	c.MaxSandboxes = 2
	d := serve(t, c)
	box, other := d.makeSandbox(t), d.makeSandbox(t)
	if full := d.do(t, "POST", "/v1/sandboxes", "{}"); full.status != 429 {
		t.Errorf("a third of two: %d %s", full.status, full.body)
	}
	if !box.Verdict.Held || box.Verdict.Evidence.Kernel == 0 {
		t.Errorf("verdict %+v", box.Verdict)
	}
	in := func(id, script string) answer {
		body, _ := json.Marshal(map[string]any{"sandbox": id, "command": map[string]any{"argv": []string{"sh", "-c", script}}})
		return d.do(t, "POST", "/v1/exec", string(body))
	}
	mustBe(t, in(box.ID, "echo kept > /work/file").reply(t), OutcomeOK)
	reply := in(box.ID, "cat /work/file").reply(t)
	if stdout, _ := reply.Output(); string(stdout) != "kept\n" {
		t.Errorf("the second exec sees %q", stdout)
	}
	mustBe(t, in(other.ID, "cat /work/file").reply(t), OutcomeError)
	var list SandboxList
	got := d.do(t, "GET", "/v1/sandboxes", "")
	if err := json.Unmarshal(got.body, &list); err != nil || len(list.Sandboxes) != 2 || list.Sandboxes[0].ID != box.ID {
		t.Errorf("list %s (%v)", got.body, err)
	}
	// What runs in a sandbox ends with it, as cancelled.
	running := make(chan answer)
	go func() { running <- in(box.ID, "sleep 60") }()
	for deadline := time.Now().Add(10 * time.Second); d.service.queue.running() != 1; {
		if time.Now().After(deadline) {
			t.Fatal("nothing runs")
		}
		time.Sleep(time.Millisecond) // polls the state that the test is about
	}
	time.Sleep(200 * time.Millisecond) // past the gate, most likely; either side of it is right
	if gone := d.do(t, "DELETE", "/v1/sandboxes/"+box.ID, ""); gone.status != 204 || len(gone.body) != 0 {
		t.Errorf("delete: %d %s", gone.status, gone.body)
	}
	if reply := (<-running).reply(t); reply.Outcome != OutcomeCancelled || !reply.TreeEmpty {
		t.Errorf("what ran in it: %s, treeEmpty %t, %s", reply.Outcome, reply.TreeEmpty, reply.Message)
	}
	for _, got := range []answer{d.do(t, "GET", "/v1/sandboxes/"+box.ID, ""), d.do(t, "DELETE", "/v1/sandboxes/"+box.ID, ""), in(box.ID, "true")} {
		if got.status != 404 {
			t.Errorf("after its end: %d %s", got.status, got.body)
		}
	}
	if got := d.do(t, "GET", "/v1/sandboxes/"+other.ID, ""); got.status != 200 {
		t.Errorf("the other: %d %s", got.status, got.body)
	}
}

func TestHealth(t *testing.T) {
	c := testConfig(t)
	c.Pool = 1
	d := serve(t, c)
	d.waitFor(t, "sandboxd_sandboxes_ready 1")
	if got := d.do(t, "GET", "/readyz", ""); got.status != 200 {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	var status Status
	got := d.do(t, "GET", "/v1/status", "")
	if err := json.Unmarshal(got.body, &status, json.RejectUnknownMembers(true)); err != nil || !status.Ready || status.Policy.Revision == "" || len(status.Host.Mechanisms) == 0 {
		t.Errorf("status %s (%v)", got.body, err)
	}
	mustBe(t, d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`).reply(t), OutcomeOK)
	d.waitFor(t, `sandboxd_execs_total{action="exec",outcome="ok"} 1`)
	d.waitFor(t, `sandboxd_http_answers_total{route="/v1/exec",status="200"} 1`)
	// A log that can't be written: not ready, and nothing is released.
	if err := d.service.log.Close(); err != nil {
		t.Fatal(err)
	}
	reply := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["echo","ran"]}}`)
	if r := reply.reply(t); reply.status != 500 || r.Outcome != OutcomeInfra || r.Bytes.Stdout != 0 || r.DurationSeconds != 0 {
		t.Errorf("%d %s", reply.status, reply.body)
	}
	if err := d.stop(); err == nil {
		t.Error("a stop that can't be recorded is no error")
	}
	d.stop = func() error { return nil }
}

// TestGracefulStop: what runs is killed, answered as cancelled and recorded; then the socket is gone.
func TestGracefulStop(t *testing.T) {
	c := testConfig(t)
	d := serve(t, c)
	box := d.makeSandbox(t)
	running := make(chan answer)
	go func() {
		running <- d.do(t, "POST", "/v1/exec", `{"stream":true,"command":{"argv":["sh","-c","echo go; sleep 60"]}}`)
	}()
	d.waitFor(t, "sandboxd_running 1")
	time.Sleep(200 * time.Millisecond) // past the gate, most likely; either side of it is right
	began := time.Now()
	if err := d.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	list := events(t, (<-running).body)
	if last := list[len(list)-1]; last.Event != "exit" || last.Reply.Outcome != OutcomeCancelled || !last.Reply.TreeEmpty {
		t.Errorf("what ran ended with %+v", last.Reply)
	}
	if _, err := os.Lstat(d.path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	records := readLog(t, c)
	if last := records[len(records)-1]; last.Type != "stop" {
		t.Errorf("the last record is %s", last.Type)
	}
	made := slices.ContainsFunc(records, func(r auditRecord) bool { return r.Sandbox == box.ID && r.Message == "made" })
	cancelled := slices.ContainsFunc(records, func(r auditRecord) bool { return r.Ending != nil && r.Ending.Outcome == "cancelled" })
	if !made || !cancelled {
		t.Errorf("the log has made %t, cancelled %t", made, cancelled)
	}
}
