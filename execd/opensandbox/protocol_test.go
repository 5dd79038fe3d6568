package opensandbox

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTwoOwners: what one has isn't there for the other, by key or by token.
func TestTwoOwners(t *testing.T) {
	s := serve(t, "")
	one, two := s.make(oneKey, ""), s.make(twoKey, "")
	for _, call := range []struct{ method, suffix, body string }{
		{"GET", "", ""}, {"GET", "/endpoints/44772", ""}, {"GET", "/endpoints/18080", ""}, {"POST", "/renew-expiration", `{"expiresAt":"2099-01-01T00:00:00Z"}`},
		{"PATCH", "/metadata", `{"a":"b"}`}, {"POST", "/pause", ""}, {"GET", "/networkpolicy", ""}, {"PUT", "/networkpolicy", "{}"}, {"GET", "/diagnostics/logs", ""},
		{"DELETE", "", ""},
	} {
		s.do(call.method, "/v1/sandboxes/"+one.id+call.suffix, call.body, headerKey, twoKey).refused(404)
	}
	var list wireList
	s.do("GET", "/v1/sandboxes", "", headerKey, twoKey).must(200).into(&list)
	if len(list.Items) != 1 || list.Items[0].ID != two.id || list.Pagination.TotalItems != 1 {
		t.Errorf("the list of the second: %+v", list)
	}
	s.do("GET", one.execd+"/ping", "", headerExecd, two.token).refused(401)
	s.do("GET", one.execd+"/ping", "", headerKey, oneKey).refused(401)
	s.do("GET", one.execd+"/ping", "", headerExecd, "").refused(401)
	s.do("GET", strings.Replace(one.execd, one.id, newUUID(), 1)+"/ping", "", headerExecd, one.token).refused(401)
	s.do("GET", "/v1/sandboxes", "").refused(401)
	s.do("GET", "/v1/sandboxes", "", headerKey, "wrong").refused(401)
	if a := one.call("GET", "/ping", "").must(200); a.body != "" || a.header.Get("Content-Length") != "0" || a.header.Get("X-Request-Id") == "" {
		t.Errorf("ping: %q %v", a.body, a.header)
	}
	if got := one.stdout("echo mine"); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("%q", got)
	}
}

// TestStream: lines, statuses and what one can be asked of a command afterwards.
func TestStream(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, `,"env":{"GREETING":"hello"}`)
	if got := b.stdout(`printf '%s\n\nleft\xc2\x85right' "$GREETING"`); !slices.Equal(got, []string{"hello", "\n", "left\u0085right"}) {
		t.Errorf("%q", got)
	}
	for _, row := range []struct{ body, value, trace string }{
		{`{"command":"exit 7"}`, "7", "exit status 7"},
		{`{"command":"kill -KILL $$; sleep 5"}`, "-1", "signal: killed"},
		{`{"command":"setsid sleep 600 & sleep 600","timeout":300}`, "-1", "signal: killed: the time limit is over"},
		{`{"argv":["no-such-program"]}`, "127", ""},
		{`{"command":"no-such-program"}`, "127", "exit status 127"},
		{`{"command":"true","envs":{"LD_PRELOAD":"/x"}}`, "125", ""},
	} {
		events := b.run(row.body)
		last := events[len(events)-1]
		if last.Error.Evalue != row.value || len(last.Error.Traceback) != 1 || last.Error.Traceback[0] != row.trace && row.trace != "" {
			t.Errorf("%s: %+v", row.body, last)
		}
		var status wireCommandStatus
		b.call("GET", "/command/status/"+events[0].Text, "").must(200).into(&status)
		if status.Running || status.ExitCode == nil || fmt.Sprint(*status.ExitCode) != row.value || status.FinishedAt == nil {
			t.Errorf("%s: %+v", row.body, status)
		}
	}
	for _, body := range []string{`{}`, `{"command":" "}`, `{"command":"true","argv":["true"]}`, `{"argv":[""]}`, `{"command":"true","timeout":-1}`, `{"command":"true","gid":1}`,
		`{"command":"true","cwd":"/no/such"}`, `{"command":5}`, `{`, `{"command":"true","envs":{"A=B":"x"}}`, `{"command":"a\u0000b"}`} {
		b.call("POST", "/command", body).refused(400)
	}
	b.call("GET", "/command/status/none", "").refused(404)
	b.call("GET", "/command/none/logs", "").refused(404)
	b.call("DELETE", "/command?id=none", "").refused(404)
	b.call("DELETE", "/command", "").refused(400)
	b.call("PUT", "/ping", "").refused(405)
	b.call("GET", "/no/such", "").refused(404)
}

// TestBackground: its id is known at once, its output can be read, and its end can be asked for, also of what it left behind.
func TestBackground(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	events := b.run(`{"command":"echo out; echo err >&2; printf tail; trap 'exit 0' TERM; while :; do sleep 0.05; done","background":true}`)
	if len(events) != 2 || events[1].Type != "execution_complete" {
		t.Fatalf("%+v", events)
	}
	id := events[0].Text
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // polls what the test is about
		logs := b.call("GET", "/command/"+id+"/logs", "").must(200)
		if strings.Contains(logs.body, "out\n") && strings.Contains(logs.body, "err\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("logs: %q", logs.body)
		}
	}
	if a := b.call("DELETE", "/command?id="+id, "").must(200); a.body != "" || a.header.Get("Content-Length") != "0" {
		t.Errorf("%q %v", a.body, a.header)
	}
	var status wireCommandStatus
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // polls what the test is about
		if b.call("GET", "/command/status/"+id, "").must(200).into(&status); !status.Running {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it runs on")
		}
	}
	if status.ExitCode == nil || *status.ExitCode != -1 {
		t.Errorf("%+v", status)
	}
	logs := b.call("GET", "/command/"+id+"/logs", "").must(200)
	if !strings.HasSuffix(logs.body, "tail") || logs.header.Get(headerCursor) != fmt.Sprint(len(logs.body)) {
		t.Errorf("%q, cursor %s", logs.body, logs.header.Get(headerCursor))
	}
	if rest := b.call("GET", "/command/"+id+"/logs?cursor="+logs.header.Get(headerCursor), "").must(200); rest.body != "" {
		t.Errorf("%q", rest.body)
	}
	left := b.run(`{"command":"sleep 600 & echo started"}`)
	b.call("DELETE", "/command?id="+left[0].Text, "").must(200)
	b.call("DELETE", "/command?id="+left[0].Text, "").refused(404)
}

// TestSessions: directory and exported variables go on, also after an exit, and never by what policy wouldn't let a command have.
func TestSessions(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	var made struct{ SessionID string }
	a := b.call("POST", "/session", "").must(200)
	made.SessionID = strings.Split(a.body, `"`)[3]
	run := func(command string) answer {
		return b.call("POST", "/session/"+made.SessionID+"/run", fmt.Sprintf(`{"command":%q}`, command)).must(200)
	}
	run("export LD_PRELOAD=/nowhere.so COLOUR='deep blue'; plain=x; cd /tmp; exit 5")
	said := run(`echo "$PWD $COLOUR [$plain] [$1]"; ls /proc/self/fd | wc -l; cat`).body
	if !strings.Contains(said, `/tmp deep blue [] []`) || !strings.Contains(said, "execution_complete") {
		t.Errorf("%s", said)
	}
	b.call("DELETE", "/session/"+made.SessionID, "").must(200)
	b.call("DELETE", "/session/"+made.SessionID, "").refused(404)
	b.call("POST", "/session/"+made.SessionID+"/run", `{"command":"true"}`).refused(404)
}

// TestPause: what runs stands still, nothing starts, and all goes on.
func TestPause(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	b.run(`{"command":"while :; do echo >>/work/beat; sleep 0.02; done","background":true}`)
	b.run(`{"command":"(while :; do echo >>/work/left; sleep 0.02; done) & true"}`)
	size := func() string { return strings.Join(b.stdout("stat -c %s /work/beat /work/left; true"), " ") }
	for size() == "" { // until both are there
		time.Sleep(20 * time.Millisecond)
	}
	s.do("POST", "/v1/sandboxes/"+b.id+"/pause", "", headerKey, oneKey).must(202)
	s.do("POST", "/v1/sandboxes/"+b.id+"/pause", "", headerKey, oneKey).refused(409)
	var now wireSandbox
	s.do("GET", "/v1/sandboxes/"+b.id, "", headerKey, oneKey).must(200).into(&now)
	if now.Status.State != "Paused" {
		t.Errorf("%+v", now.Status)
	}
	if events := b.run(`{"command":"echo no"}`); events[len(events)-1].Error.Evalue != "125" {
		t.Errorf("a command in a paused sandbox: %+v", events)
	}
	before := usage(t, b)
	time.Sleep(300 * time.Millisecond) // what would run would use some time
	if after := usage(t, b); after != before {
		t.Errorf("it has used %d ticks while it was paused", after-before)
	}
	s.do("POST", "/v1/sandboxes/"+b.id+"/resume", "", headerKey, oneKey).must(202)
	first := size()
	for deadline := time.Now().Add(20 * time.Second); size() == first; time.Sleep(20 * time.Millisecond) { // polls what the test is about
		if time.Now().After(deadline) {
			t.Fatal("nothing goes on")
		}
	}
}

// usage counts the involuntary and voluntary switches of the sandbox's shells: who stands still has no more of them.
func usage(t *testing.T, b box) int {
	t.Helper()
	total := 0
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(env), envsVariable+"="+envsFile) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(status), "\n") {
			if _, count, ok := strings.Cut(line, "ctxt_switches:\t"); ok {
				n := 0
				_, _ = fmt.Sscan(count, &n) // 0 for what isn't a number
				total += n
			}
		}
	}
	if total == 0 {
		t.Error("no process of the sandbox was found")
	}
	return total
}

const echoServer = `import http.server, base64, hashlib
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") == "echo":
            self.send_response(101); self.send_header("Upgrade", "echo"); self.send_header("Connection", "Upgrade"); self.end_headers()
            self.wfile.write(b"got " + self.rfile.readline()); self.close_connection = True
            return
        body = (self.path + "\n" + str(self.headers)).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 18474), H).serve_forever()`

// TestPorts: a request to a port of a sandbox arrives there as it was, without what opens anything here, and a connection that changes its protocol goes on.
func TestPorts(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	at := strings.Replace(b.execd, "/44772", "/18474", 1)
	s.do("GET", at+"/", "", headerExecd, b.token).refused(502)
	b.run(fmt.Sprintf(`{"argv":["python3","-c",%q],"background":true}`, echoServer))
	get := func() answer {
		return s.do("GET", at+"/a%2Fb?q=1", "", headerExecd, b.token, headerKey, oneKey, headerEgress, "egress", "X-Kept", "yes")
	}
	said := get()
	for deadline := time.Now().Add(20 * time.Second); said.status == 502 && time.Now().Before(deadline); said = get() { // polls until it listens
		time.Sleep(50 * time.Millisecond)
	}
	said.must(200)
	if !strings.Contains(said.body, "/a%2Fb?q=1\n") || !strings.Contains(said.body, "X-Kept: yes") {
		t.Errorf("%s", said.body)
	}
	for _, secret := range []string{oneKey, b.token, "egress"} {
		if strings.Contains(said.body, secret) {
			t.Errorf("%s got through: %s", secret, said.body)
		}
	}
	s.do("GET", at+"/", "").refused(401)

	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", strings.TrimPrefix(at, s.base)+"/", headerExecd, b.token)
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != 101 {
		t.Fatalf("%+v, %v", response, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "got hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestNoSecretInReach: neither a child's environment, nor the log, nor a file of the daemon's has a key or a token.
func TestNoSecretInReach(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	seen := strings.Join(b.stdout("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"), "\n")
	if !strings.Contains(seen, "PATH=") || strings.Contains(seen, b.token) || strings.Contains(seen, oneKey) {
		t.Errorf("%s", seen)
	}
	s.stop()
	if log := s.logged(); strings.Contains(log, b.token) || strings.Contains(log, oneKey) {
		t.Error("the log has a secret")
	}
	err := filepath.WalkDir(s.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "keys" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && (strings.Contains(string(data), b.token) || strings.Contains(string(data), oneKey)) {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRestart: sandboxes end with their daemon, and the next one says so until they would have expired.
func TestRestart(t *testing.T) {
	first := serve(t, "")
	b := first.make(oneKey, `,"metadata":{"a":"b"}`)
	gone := first.make(oneKey, "")
	first.do("DELETE", "/v1/sandboxes/"+gone.id, "", headerKey, oneKey).must(204)
	var before, after wireSandbox
	first.do("GET", "/v1/sandboxes/"+b.id, "", headerKey, oneKey).must(200).into(&before)
	first.stop()

	s := serve(t, first.state)
	path := "/v1/sandboxes/" + b.id
	s.do("GET", path, "", headerKey, oneKey).must(200).into(&after)
	if after.Status.State != "Terminated" || after.Status.Reason == "" || after.Metadata["a"] != "b" || !after.ExpiresAt.Equal(*before.ExpiresAt) {
		t.Errorf("%+v, before %+v", after, before)
	}
	s.do("GET", path, "", headerKey, twoKey).refused(404)
	s.do("GET", path+"/endpoints/44772", "", headerKey, oneKey).refused(404)
	s.do("GET", strings.Replace(b.execd, first.base, s.base, 1)+"/ping", "", headerExecd, b.token).refused(401)
	s.do("POST", path+"/renew-expiration", `{"expiresAt":"2099-01-01T00:00:00Z"}`, headerKey, oneKey).refused(409)
	s.do("GET", "/v1/sandboxes/"+gone.id, "", headerKey, oneKey).refused(404)
	s.do("DELETE", path, "", headerKey, oneKey).must(204)
	s.do("DELETE", path, "", headerKey, oneKey).refused(404)
	if left, err := filepath.Glob(filepath.Join(s.state, "opensandbox", "*")); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestRefusals: what can't be kept is refused before there is a sandbox.
func TestRefusals(t *testing.T) {
	s := serve(t, "")
	for change, status := range map[string]int{
		`"timeout":59`: 400, `"timeout":"soon"`: 400, `"entrypoint":[]`: 400, `"entrypoint":["no-such-program"]`: 400, `"image":null`: 400, `"snapshotId":"x"`: 400,
		`"image":{"uri":"no-such:image"}`: 403, `"secureAccess":true`: 400, `"volumes":[{"name":"x"}]`: 400, `"credentialProxy":{"enabled":true}`: 400,
		`"lifecycle":{"preStart":{"command":["true"]}}`: 400, `"extensions":{"poolRef":"p"}`: 400, `"platform":{"os":"windows","arch":"amd64"}`: 400,
		`"resourceLimits":{"gpu":"1"}`: 400, `"resourceLimits":{"cpu":"many"}`: 400, `"resourceLimits":{"memory":"1Ti"}`: 400, `"env":{"LD_PRELOAD":"/x"}`: 403,
		`"env":{"A":1}`: 400, `"metadata":{"opensandbox.io/x":"y"}`: 400, `"networkPolicy":{"defaultAction":"block"}`: 400,
		`"networkPolicy":{"egress":[{"action":"allow","target":"http://x.example"}]}`: 400, `"networkPolicy":{"egress":[{"action":"allow","target":"10.0.0.1"}]}`: 403,
		`"extensions":{"sandboxd.securityContext":"{\"privileged\":true}"}`: 403, `"extensions":{"sandboxd.securityContext":"{"}`: 400,
	} {
		base := map[string]string{"image": `{"uri":"host"}`, "entrypoint": `["tail","-f","/dev/null"]`}
		name, value, _ := strings.Cut(change, ":")
		base[strings.Trim(name, `"`)] = value
		var members []string
		for name, value := range base {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
		a := s.do("POST", "/v1/sandboxes", "{"+strings.Join(members, ",")+"}", headerKey, oneKey)
		if a.refused(status); t.Failed() {
			t.Fatal(change)
		}
	}
	var list wireList
	s.do("GET", "/v1/sandboxes", "", headerKey, oneKey).must(200).into(&list)
	if len(list.Items) != 0 {
		t.Errorf("%+v", list.Items)
	}
	for _, path := range []string{"/v1/snapshots", "/v1/templates", "/v1/pools"} {
		s.do("GET", path, "", headerKey, oneKey).refused(501)
	}
}

// TestRepeatedCreate: a create that is named and sent again, at once or later, makes one sandbox.
func TestRepeatedCreate(t *testing.T) {
	s := serve(t, "")
	const body = `{"image":{"uri":"host"},"entrypoint":["tail","-f","/dev/null"]}`
	create := func(key, body string) answer {
		return s.do("POST", "/v1/sandboxes", body, headerKey, key, headerRepeat, "one")
	}
	ids := make(chan string, 4)
	for range cap(ids) {
		go func() {
			var made wireSandbox
			if a := create(oneKey, body); a.status == 202 {
				a.into(&made)
			}
			ids <- made.ID
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first || id == "" {
			t.Errorf("%q and %q", first, id)
		}
	}
	create(oneKey, strings.Replace(body, "{", `{"timeout":600,`, 1)).refused(409)
	var other, again wireSandbox
	if create(twoKey, body).must(202).into(&other); other.ID == first {
		t.Error("another owner has it")
	}
	s.do("DELETE", "/v1/sandboxes/"+first, "", headerKey, oneKey).must(204)
	if create(oneKey, body).must(202).into(&again); again.ID == first || again.ID == "" {
		t.Errorf("after its end: %q", again.ID)
	}
}
