package execd

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

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
			if took := time.Since(began); took > 20*time.Second {
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
	for path, errno := range map[string]string{"/work/x": "ENOENT its interpreter", "/work/y": "ENOEXEC neither", "/work": "EACCES not an executable", "/work/z": "ENOENT /work/z: no such file"} {
		reply := exec(`["` + path + `"]`)
		mustBe(t, reply, OutcomeNotStarted)
		errno, message, _ := strings.Cut(errno, " ")
		if reply.Errno != errno || !strings.Contains(reply.Message, message) {
			t.Errorf("%s: %s, %q; want %s, %q", path, reply.Errno, reply.Message, errno, message)
		}
	}
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
		{"sandbox with fields", "POST", "/v1/sandboxes", `{"name":"x"}`, nil, 400, "BAD_REQUEST", "name"},
		{"no such sandbox", "GET", "/v1/sandboxes/x", "", nil, 404, "NOT_FOUND", "sandbox"},
		{"delete no such sandbox", "DELETE", "/v1/sandboxes/x", "", nil, 404, "NOT_FOUND", "sandbox"},
		{"everything beneath a public suffix", "POST", "/v1/exec", `{"command":{"argv":["true"]},"network":{"egress":[{"action":"deny","target":"*.co.uk"},{"action":"allow","target":"*.github.io"}]}}`, nil,
			400, "BAD_REQUEST", "network.egress[1].target"},
		{"everything beneath a public suffix, asked", "POST", "/v1/decide", `{"action":"run","code":"1","network":{"egress":[{"action":"allow","target":"*.co.uk"}]}}`, nil,
			400, "BAD_REQUEST", "network.egress[0].target"},
		{"metadata by name", "POST", "/v1/run", `{"code":"1","network":{"egress":[{"action":"allow","target":"metadata.google.internal"}]}}`, nil,
			400, "BAD_REQUEST", "network.egress[0].target"},
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

// TestSlowClients: a header or a body that doesn't come is given up, within its bound, and costs nobody else anything.
func TestSlowClients(t *testing.T) {
	c := testConfig(t)
	c.HeaderTimeout, c.BodyTimeout = 200*time.Millisecond, 200*time.Millisecond
	d := serve(t, c)
	for name, row := range map[string]struct{ sent, want string }{
		"half a header": {"POST /v1/exec HTTP/1.1\r\nHost: x\r\n", ""},
		"half a body":   {"POST /v1/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"comm", "HTTP/1.1 400 "},
		"a broken body": {"POST /v1/exec HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400 "},
	} {
		conn, err := net.Dial("unix", d.path)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		began := time.Now()
		if _, err := conn.Write([]byte(row.sent)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		conn.Close()
		if err != nil || !strings.HasPrefix(string(got), row.want) || row.want == "" && strings.HasPrefix(string(got), "HTTP/1.1 200") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: given up after %s", name, took)
		}
	}
	// An exec that takes longer than a body may take to arrive isn't ended by that bound.
	mustBe(t, d.do(t, "POST", "/v1/exec", `{"command":{"argv":["sleep","0.6"]}}`).reply(t), OutcomeOK)
	for deadline := time.Now().Add(5 * time.Second); len(d.service.queue.tickets) != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d tickets are lost", len(d.service.queue.tickets))
		}
		time.Sleep(time.Millisecond) // polls the state that the test is about
	}
}
