package opensandbox

import (
	"bufio"
	"bytes"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// in is the server with the errors of another test.
func (s *server) in(t testing.TB) *server {
	if s == nil {
		return nil
	}
	other := *s
	other.t = t
	return &other
}

// eventually polls what another process or another goroutine does.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it isn't so: " + what)
		}
	}
}

// sink is a client that counts what it gets, and may go away.
type sink struct {
	*httptest.ResponseRecorder
	writes int
	gone   bool
}

func (s *sink) Write(data []byte) (int, error) {
	s.writes++
	if s.gone {
		return 0, errors.New("the client has gone")
	}
	return s.ResponseRecorder.Write(data)
}

// noPause: a stream takes no time of its own, by a clock that only waiting moves.
func noPause(t *testing.T, _ *server) {
	synctest.Test(t, func(t *testing.T) {
		client := &sink{ResponseRecorder: httptest.NewRecorder()}
		begun := time.Now()
		s := newStream(client, "id", time.Minute, make(chan struct{}))
		s.begin()
		s.Output("stdout", []byte("line\nrest"))
		s.finish(ending{})
		if took := time.Since(begun); took != 0 {
			t.Errorf("it waits for %v", took)
		}
		if body := client.Body.String(); !strings.HasSuffix(body, "}\n\n") || strings.Count(body, "execution_complete") != 1 {
			t.Errorf("%s", body)
		}
	})
}

// sessionLimit: the limit ends a run though a child of its holds the output, with an end that says so, and what the session had is kept.
func sessionLimit(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	var session struct {
		ID string `json:"session_id"`
	}
	b.call("POST", "/session", "").must(200).into(&session)
	at := "/session/" + session.ID + "/run"
	b.call("POST", at, `{"command":"export KEPT=yes; cd /tmp"}`).must(200)
	events := eventsOf(t, b.call("POST", at, `{"command":"echo a; echo; echo b; setsid sleep 600 & sleep 600","timeout":500}`).must(200))
	var lines []string
	for _, e := range events {
		if e.Type == "stdout" {
			lines = append(lines, e.Text)
		}
	}
	if last := events[len(events)-1]; last.Type != "error" || last.Error.Evalue != "-1" || !slices.Equal(lines, []string{"a", "\n", "b"}) {
		t.Errorf("%q, %+v", lines, last)
	}
	if said := b.call("POST", at, `{"command":"echo $KEPT $PWD"}`).must(200).body; !strings.Contains(said, "yes /tmp") {
		t.Errorf("%s", said)
	}
}

// eventsOf are those of a stream.
func eventsOf(t testing.TB, a answer) (list []event) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(a.body, "\n\n"), "\n\n") {
		var e event
		if err := json.Unmarshal([]byte(frame), &e); err != nil {
			t.Fatalf("%q: %v", frame, err)
		}
		list = append(list, e)
	}
	return list
}

// marked are the processes that have a variable of that value.
func marked(t testing.TB, mark string) (pids []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		env, err := os.ReadFile(path) // an error is one that has ended
		if err == nil && bytes.Contains(env, []byte("MARK="+mark)) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// wholeTree: who has left the group and the session ends with it, at the limit and by an interrupt.
func wholeTree(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	const tree = `setsid sh -c \"sleep 600 & sleep 600\" & (sleep 600 &) ; trap \"\" TERM; sleep 600`
	mark := newID()
	if last := b.run(`{"command":"` + tree + `","timeout":1000,"envs":{"MARK":"` + mark + `"}}`); last[len(last)-1].Type != "error" {
		t.Errorf("%+v", last)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("at its limit %d processes are left", len(left))
	}
	mark = newID()
	id := b.run(`{"command":"` + tree + `","background":true,"envs":{"MARK":"` + mark + `"}}`)[0].Text
	eventually(t, "five processes run", func() bool { return len(marked(t, mark)) >= 5 })
	b.call("DELETE", "/command?id="+id, "").nothing()
	eventually(t, "it is said to have ended", func() bool {
		var status wireCommandStatus
		b.call("GET", "/command/status/"+id, "").must(200).into(&status)
		return !status.Running
	})
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("by an interrupt %d processes are left", len(left))
	}
}

// cleanStream: no character that some client takes for the end of a line, and nothing behind the end.
func cleanStream(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	raw := b.call("POST", "/command", `{"command":"printf 'a\\302\\205b\\342\\200\\250c\\342\\200\\251d\\014e\\033'"}`).must(200).body
	if strings.ContainsAny(raw, "\u0085\u2028\u2029\x0c\x1b\r") || !strings.Contains(raw, `a\u0085b\u2028c\u2029d`) {
		t.Errorf("%q", raw)
	}
	synctest.Test(t, func(t *testing.T) {
		client := &sink{ResponseRecorder: httptest.NewRecorder()}
		s := newStream(client, "id", time.Minute, make(chan struct{}))
		s.begin()
		time.Sleep(10 * pingEvery)
		synctest.Wait()
		if pings := strings.Count(client.Body.String(), `"ping"`); pings < 8 || pings > 12 {
			t.Errorf("%d pings", pings)
		}
		s.finish(ending{})
		writes := client.writes
		time.Sleep(10 * pingEvery)
		synctest.Wait()
		if client.writes != writes {
			t.Errorf("%d writes behind the end", client.writes-writes)
		}
	})
}

// insecureHasTokens: without keys, endpoints still want their token.
func insecureHasTokens(t *testing.T, _ *server) {
	s := serveWith(t, "", func(_ *execd.Config, o *Config) { o.Keys, o.Insecure = nil, true })
	b := s.make("", "")
	s.do("GET", b.execd+"/ping", "").refused(401)
	s.do("POST", b.execd+"/command", `{"command":"true"}`).refused(401)
	s.do("GET", b.execd+"/ping", "", headerExecd, b.id).refused(401)
	s.do("GET", strings.Replace(b.execd, "/44772", "/18080", 1)+"/policy", "", headerExecd, b.token).refused(401)
	b.call("GET", "/ping", "").nothing()
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "Keys") {
		t.Errorf("without keys: %v", err)
	}
}

// refusalShapes: every no is one that clients can read.
func refusalShapes(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	for _, api := range tables(t) {
		for _, r := range api {
			path := strings.NewReplacer("{", "", "}", "").Replace(r.path)
			s.do(r.method, b.execd+path, "").refused(401)
			s.do(r.method, "/v1"+path, "").refused(401)
		}
	}
	b.call("GET", "/no/such", "").refused(404)
	b.call("PUT", "/ping", "").refused(405)
}

// badDownloads: what isn't a file is refused at once, and a range that isn't one is none.
func badDownloads(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	b.stdout("mkdir d; mkfifo p; ln -s p lp; printf 0123456789 >f; : >empty; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"")
	for _, path := range []string{"d", "p", "lp", "s", "/dev/zero", "/dev/full", "/dev/null", "/proc"} {
		b.download("path=" + path).refused(400)
	}
	for _, value := range []string{"bytes=", "bytes=5-2", "bytes=x-y", "lines=1-2", "bytes", "-", "bytes=--1", "bytes=99999999999999999999999-"} {
		if a := b.download("path=f", "Range", value); a.status == 200 && (a.body != "0123456789" || a.header.Get("Content-Length") != "10") || a.status != 200 && a.status != 416 {
			t.Errorf("%s: %d %q %v", value, a.status, a.body, a.header)
		}
	}
	if a := b.download("path=empty", "Range", "bytes=0-1048576"); a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "0" {
		t.Errorf("%d %q", a.status, a.body)
	}
}

// no500: what a caller can mend is never a failure of ours.
func no500(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	b.stdout("mkdir d; echo x >f; echo y >g; ln -s l l")
	for _, call := range [][3]string{
		{"DELETE", "/command?id=none", ""}, {"POST", "/session/none/run", `{"command":"true"}`}, {"DELETE", "/session/none", ""}, {"POST", "/files/mv", `[{"src":"f","dest":"g"}]`},
		{"POST", "/files/permissions", `{"none":{"mode":644}}`}, {"POST", "/files/permissions", `{"f":{"mode":999}}`}, {"POST", "/files/permissions", `{"f":{"mode":-1}}`},
		{"POST", "/directories", `{"f":{"mode":755}}`}, {"DELETE", "/files?path=d", ""}, {"GET", "/files/download?path=l", ""}, {"GET", "/files/info?path=l/x", ""},
		{"POST", "/v1/isolated/session/none/run", `{"code":"true"}`}, {"GET", "/v1/isolated/session/none/runs/none", ""},
	} {
		if a := b.call(call[0], call[1], call[2]); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %s", call, a.status, a.body)
		}
	}
	b.upload(`{"path":"d"}`, "x").refused(400)
	if got := b.stdout("cat g"); !slices.Equal(got, []string{"y"}) {
		t.Errorf("%q", got)
	}
}

// unknownCommand: status and log of one that isn't known are 404, by a code that says that.
func unknownCommand(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	for _, path := range []string{"/command/status/none", "/command/none/logs", "/command/" + newID() + "/logs?cursor=x"} {
		a := b.call("GET", path, "")
		if a.refused(404); !strings.Contains(a.body, `"code":"COMMAND_NOT_FOUND"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

// specialBits: refused, never dropped; and a name with a dollar is that.
func specialBits(t *testing.T, s *server) {
	b := s.make(oneKey, `,"env":{"X":"elsewhere"}`)
	for _, mode := range []string{"4755", "2755", "1777"} {
		b.upload(`{"path":"f","mode":`+mode+`}`, "x").refused(400)
		b.call("POST", "/directories", `{"d":{"mode":`+mode+`}}`).refused(400)
	}
	b.upload(`{"path":"f","owner":"nobody-here","mode":644}`, "x").refused(400)
	b.upload(`{"path":"/work/$X-${X}-$(id)","mode":644}`, "x").nothing()
	if got := b.stdout("ls -A"); !slices.Equal(got, []string{"$X-${X}-$(id)"}) {
		t.Errorf("%q", got)
	}
	b.stdout(`printf 'ESCAPED="a\\"b\\\\c\\nd"\nPLAIN='"'"'$X'"'"'\n' >>"$EXECD_ENVS"`)
	if got := b.stdout(`printf %s "$ESCAPED,$PLAIN"`); !slices.Equal(got, []string{`a"b\c`, "d,$X"}) {
		t.Errorf("%q", got)
	}
}

// ownMetrics: they are of what the sandbox may have, whatever the machine has.
func ownMetrics(t *testing.T, s *server) {
	b := s.make(oneKey, `,"resourceLimits":{"cpu":"500m","memory":"96Mi"}`)
	b.stdout("head -c 8M /dev/zero >/work/f")
	for range 3 {
		var m wireMetrics
		b.call("GET", "/metrics", "").must(200).into(&m)
		if m.CPUCount != 0.5 || m.TotalMiB != 96 || m.UsedMiB < 0 || m.UsedMiB > 96 || m.CPUPercent < 0 || m.CPUPercent > 100 || m.Timestamp == 0 {
			t.Errorf("%+v", m)
		}
	}
}

// outputIsNobodys: output of a background command is in no file that has a name, in none that others may read, and is gone with the sandbox.
func outputIsNobodys(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	const half = "said-in-the-background-"
	secret := newID()
	id := b.run(`{"command":"printf '%s%s\\n' ` + half + ` ` + secret + `; sleep 600","background":true}`)[0].Text
	eventually(t, "the log has it", func() bool { return strings.Contains(b.call("GET", "/command/"+id+"/logs", "").body, half+secret) })
	held := func() (found int) {
		descriptors, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range descriptors {
			path := "/proc/self/fd/" + d.Name()
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > 1<<20 {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(data, []byte(half+secret)) {
				continue
			}
			if found++; info.Sys().(*syscall.Stat_t).Nlink != 0 || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("it is in a file with a name, or of mode %v", info.Mode())
			}
		}
		return found
	}
	if held() != 1 {
		t.Errorf("it is in %d files that are open, want 1", held())
	}
	if path := containing(t, s.state, half+secret); path != "" {
		t.Errorf("%s has it", path)
	}
	if got := b.stdout("grep -rl " + half + secret[:16] + " /work /tmp /dev/shm /var /run 2>/dev/null; true"); len(got) != 0 {
		t.Errorf("in the sandbox: %q", got)
	}
	s.do("DELETE", "/v1/sandboxes/"+b.id, "", headerKey, oneKey).must(204)
	eventually(t, "the file is given up", func() bool { return held() == 0 })
}

// containing is a file below a directory that has a text.
func containing(t testing.TB, dir, text string) (found string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // somebody else's that has gone meanwhile
		}
		if info, err := entry.Info(); err != nil || info.Size() > 16<<20 {
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(text)) {
			found = path
		}
		return nil
	})
	return found
}

// connecting tries addresses from inside, and says for each what came.
const connecting = `import socket, sys
for at in sys.argv[1:]:
    host, port = at.rsplit("|", 1)
    try:
        with socket.create_connection((host, int(port)), 5) as c:
            c.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            got = c.recv(100)
            print(at, "answered" if got else "closed")
    except OSError as e:
        print(at, type(e).__name__)
`

// pooledPolicy: a sandbox that was made before anybody asked has the policy of who gets it; and nothing of this server can be reached from in there.
func pooledPolicy(t *testing.T, _ *server) {
	s := serveWith(t, "", func(c *execd.Config, _ *Config) { c.Pool = 1 })
	var b box
	eventually(t, "a sandbox that was made ahead is given out", func() bool { // the daemon may take it for its own probes
		eventually(t, "a sandbox is made ahead", func() bool { return s.service.Status().Sandboxes.Ready == 1 })
		ahead := launchers(t)
		b = s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny","egress":[{"action":"allow","target":"data.example.org"}]}`)
		return slices.Contains(ahead, launcherOf(t, b))
	})
	var status policyStatus
	policyOf(b).must(200).into(&status)
	if status.EnforcementMode != enforcementMode || status.Policy.DefaultAction != "deny" || len(status.Policy.Egress) != 1 {
		t.Errorf("%+v", status)
	}
	server, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"127.0.0.1|18080", "127.0.0.1|44772", "::1|18080", "127.0.0.1|" + server.Port(), "::1|" + server.Port()}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range own {
		if network, ok := address.(*net.IPNet); ok && !network.IP.IsLinkLocalUnicast() {
			addresses = append(addresses, network.IP.String()+"|"+server.Port())
		}
	}
	argv, err := json.Marshal(append([]string{"python3", "-c", connecting}, addresses...))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []box{b, s.make(oneKey, "")} { // which lets nothing in reach out, and which lets out
		tried := 0
		for _, e := range of.run(`{"argv":` + string(argv) + `}`) {
			if e.Type == "stdout" {
				if tried++; strings.HasSuffix(e.Text, "answered") {
					t.Errorf("from inside: %s", e.Text)
				}
			}
		}
		if of == b && tried != len(addresses) || tried == 0 {
			t.Errorf("%d of %d addresses were tried", tried, len(addresses))
		}
	}
}

// launchers are the children of this process.
func launchers(t testing.TB) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	ours := fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())
	for _, path := range paths {
		data, err := os.ReadFile(path) // an error is one that has ended
		if pid, wrong := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && wrong == nil && strings.Contains(string(data), ours) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// initIsKnown: who has seen the first event can ask for the command.
func initIsKnown(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	for i := range 20 {
		r, err := http.NewRequest("POST", b.execd+"/command", strings.NewReader(fmt.Sprintf(`{"command":"cat /work/none; read x </dev/zero","background":%t}`, i%2 == 0)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(headerExecd, b.token)
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := bufio.NewReader(response.Body).ReadString('\n')
		var first event
		if err == nil {
			err = json.Unmarshal([]byte(frame), &first)
		}
		if err != nil || first.Type != "init" || first.Text == "" {
			t.Fatalf("%q: %v", frame, err)
		}
		var status wireCommandStatus
		if b.call("GET", "/command/status/"+first.Text, "").must(200).into(&status); status.ID != first.Text {
			t.Errorf("%+v", status)
		}
		b.call("DELETE", "/command?id="+first.Text, "")
		response.Body.Close()
	}
}

// everyLine: blank lines, ends by CR, a last line without an end and one of more than a megabyte arrive, each as it was.
func everyLine(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	const long = 1_500_000
	got := b.stdout(fmt.Sprintf(`printf '\n\na\rb\r\n\n'; head -c %d /dev/zero | tr '\0' x; printf '\nlast'`, long))
	size, lines := 0, 0
	for _, text := range got[min(5, len(got)):] {
		if n := strings.Count(text, "x"); n == len(text) {
			size, lines = size+n, lines+1
		}
	}
	if !slices.Equal(got[:min(5, len(got))], []string{"\n", "\n", "a", "b", "\n"}) || size != long || lines != 1 || got[len(got)-1] != "last" {
		t.Errorf("%d events, %d bytes of the long line in %d: %.60q … %q", len(got), size, lines, got, got[len(got)-1])
	}
}

// emptyIsNotNull: what clients parse strictly is there, also where there is nothing.
func emptyIsNotNull(t *testing.T, s *server) {
	b := s.make(twoKey, `,"networkPolicy":{"defaultAction":"deny"}`)
	b.stdout("mkdir d; : >f")
	for path, want := range map[string]string{
		"/directories/list?path=d": `[]`, "/directories/list?path=.&depth=0": `[]`, "/files/search?path=d&pattern=*": `[]`, "/files/info": `{}`,
		"/v1/isolated/sessions": `{"sessions":[]}`,
	} {
		if a := b.call("GET", path, "").must(200); a.body != want {
			t.Errorf("%s: %s, want %s", path, a.body, want)
		}
	}
	for what, a := range map[string]answer{
		"size": b.call("GET", "/files/info?path=f", ""), "items": s.do("GET", "/v1/sandboxes?metadata=no%3Dwhere", "", headerKey, twoKey), "egress": policyOf(b),
		"traceback": b.call("POST", "/command", `{"command":"exit 3"}`),
	} {
		want := map[string]string{"size": `"size":0`, "items": `"items":[]`, "egress": `"egress":[]`, "traceback": `"traceback":["`}[what]
		if a.must(200); !strings.Contains(a.body, want) || strings.Contains(a.body, "null") {
			t.Errorf("%s: %s", what, a.body)
		}
	}
}

// proxyStreams: what a port of the sandbox has written arrives while more of it is still to come.
func proxyStreams(t *testing.T, s *server) {
	b := s.make(oneKey, "")
	const server = `import http.server, os, time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"first\n"); self.wfile.flush()
        while not os.path.exists("/work/go"): time.sleep(0.01)
        self.wfile.write(b"second\n")
http.server.HTTPServer(("127.0.0.1", 18475), H).serve_forever()`
	b.run(fmt.Sprintf(`{"argv":["python3","-c",%q],"background":true}`, server))
	var response *http.Response
	eventually(t, "it listens", func() bool {
		r, err := http.NewRequest("GET", strings.Replace(b.execd, "/44772", "/18475", 1)+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(headerExecd, b.token)
		if response, err = s.client.Do(r); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != 200 {
			response.Body.Close()
		}
		return response.StatusCode == 200
	})
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	b.upload(`{"path":"/work/go"}`, "").nothing()
	if line, err := lines.ReadString('\n'); line != "second\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// nothingLeft: a client that has gone is written to once; and starts that fail leave no descriptor and no goroutine.
func nothingLeft(t *testing.T, s *server) {
	synctest.Test(t, func(t *testing.T) {
		client := &sink{ResponseRecorder: httptest.NewRecorder()}
		s := newStream(client, "id", time.Minute, make(chan struct{}))
		s.begin()
		s.mu.Lock()
		client.gone = true
		s.mu.Unlock()
		time.Sleep(2 * pingEvery)
		synctest.Wait()
		writes := client.writes
		time.Sleep(100 * pingEvery)
		s.Output("stdout", []byte("more\n"))
		s.finish(ending{})
		if client.writes != writes {
			t.Errorf("%d writes to a client that has gone", client.writes-writes)
		}
	})
	b := s.make(oneKey, "")
	fail := func() {
		for _, background := range []string{"", `,"background":true`} {
			for _, body := range []string{`"argv":["no-such-program"]`, `"command":"true","cwd":"/no/such"`, `"command":"true","envs":{"LD_PRELOAD":"/x"}`,
				`"command":"true","uid":0`, `"argv":["/etc/passwd"]`, `"argv":["/work"]`, `"command":" "`} {
				b.call("POST", "/command", "{"+body+background+"}")
			}
		}
		b.call("POST", "/session/none/run", `{"command":"true"}`)
		b.call("POST", "/v1/isolated/session", `{"workspace":{"path":"/no/such","mode":"rw"}}`)
		s.do("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"entrypoint":["no-such-program"]}`, headerKey, oneKey).refused(400)
	}
	count := func() (descriptors, goroutines int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), runtime.NumGoroutine()
	}
	// Logs of commands that ended are kept, as many as were begun: those of the first rounds are in the count.
	fail()
	fail()
	kept := openLogs(t)
	descriptors, goroutines := count()
	for range 5 {
		fail()
	}
	more := openLogs(t) - kept
	eventually(t, "descriptors and goroutines are what they were", func() bool {
		d, g := count()
		return d <= descriptors+more && g <= goroutines+2 // the client's idle connections come and go
	})
	if perFail := float64(more) / 5; perFail > 8 {
		t.Errorf("%.1f logs are kept of each round", perFail)
	}
}

// openLogs counts the files without a name that this process has open.
func openLogs(t testing.TB) (found int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.Contains(target, "/opensandbox/#") {
			found++
		}
	}
	return found
}

// quietLogs: values of variables, what is exported, contents of files and what looks like a secret in a command are in no log and in no file of ours.
func quietLogs(t *testing.T, _ *server) {
	s := serve(t, "")
	canary := func(n int) string { return fmt.Sprintf("canary%d%s", n, newID()) }
	var secrets []string
	next := func() string { secrets = append(secrets, canary(len(secrets))); return secrets[len(secrets)-1] }
	b := s.make(oneKey, `,"env":{"CREATED":"`+next()+`"}`)
	b.run(`{"command":"test -n \"$GIVEN$CREATED\"","envs":{"GIVEN":"` + next() + `"}}`)
	b.run(`{"command":"true","envs":{"GIVEN":"` + next() + `"},"background":true}`)
	b.run(`{"argv":["true","--password","` + next() + `","--api-key=` + next() + `"]}`)
	b.run(`{"command":"echo https://user:` + next() + `@example.com/ 'Authorization: Bearer ` + next() + `'"}`)
	b.run(`{"command":"PASSWORD=` + next() + ` true; export API_TOKEN=` + next() + `"}`)
	b.run(`{"command":"no-such-program","envs":{"GIVEN":"` + next() + `"}}`)
	b.stdout(`echo "KEPT='` + "persisted" + `'" >>"$EXECD_ENVS"; echo`)
	b.upload(`{"path":"/work/f"}`, next()).nothing()
	b.stdout("cat /work/f")
	s.do("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"entrypoint":["true"],"env":{"LD_PRELOAD":"`+next()+`"}}`, headerKey, oneKey).refused(403)
	s.do("GET", "/v1/sandboxes", "", headerKey, next()).refused(401)
	s.do("GET", b.execd+"/ping", "", headerExecd, next()).refused(401)
	s.stop()
	log := s.logged()
	for i, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("the log has secret %d", i)
		}
		if path := containing(t, s.state, secret); path != "" {
			t.Errorf("%s has secret %d", path, i)
		}
	}
	if containing(t, filepath.Join(s.state, "audit"), `"GIVEN"`) == "" {
		t.Error("the record has no name of a variable either: was it looked at?")
	}
}
