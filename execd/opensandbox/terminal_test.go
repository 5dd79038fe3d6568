package opensandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandboxd/sandboxd/execd"
)

// client sits at a terminal.
type client struct {
	t    testing.TB
	conn *websocket.Conn
	// shown is all that came, replayed what it had missed of that, from is where that begins.
	shown, replayed, errors string
	from                    int64
	frames                  []serverFrame
	// ended is how the connection ended.
	ended error
}

// dial connects with what a client needs, and with more headers in pairs.
func (b box) dial(session, query string, headers ...string) (*client, *http.Response, error) {
	b.s.t.Helper()
	header := http.Header{headerExecd: {b.token}}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	conn, response, err := websocket.Dial(b.s.t.Context(), "ws"+strings.TrimPrefix(b.execd, "http")+"/pty/"+session+"/ws?"+query,
		&websocket.DialOptions{HTTPHeader: header, HTTPClient: &http.Client{Transport: b.s.client.Transport}})
	if err != nil {
		return nil, response, err
	}
	conn.SetReadLimit(2 << 20)
	b.s.t.Cleanup(func() { conn.CloseNow() })
	return &client{t: b.s.t, conn: conn}, response, nil
}

// sit sits down at a session, which must be possible.
func (b box) sit(session, query string) *client {
	b.s.t.Helper()
	c, _, err := b.dial(session, query)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return c
}

// session makes one.
func (b box) session(body string) string {
	b.s.t.Helper()
	var made struct {
		SessionID string `json:"session_id"`
	}
	b.call("POST", "/pty", body).must(201).into(&made)
	return made.SessionID
}

// next takes one frame; false: there is none any more.
func (c *client) next() bool {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	kind, data, err := c.conn.Read(ctx)
	switch {
	case err != nil:
		c.ended = err
		return false
	case kind == websocket.MessageText:
		var frame serverFrame
		if err := json.Unmarshal(data, &frame); err != nil {
			c.t.Errorf("%s: %v", data, err)
		}
		c.frames = append(c.frames, frame)
	case data[0] == frameOutput:
		c.shown += string(data[1:])
	case data[0] == frameErrors:
		c.errors += string(data[1:])
	case data[0] == frameReplay && len(data) >= 9:
		c.from = int64(binary.BigEndian.Uint64(data[1:]))
		c.replayed += string(data[9:])
		c.shown += string(data[9:])
	default:
		c.t.Errorf("a frame of kind %#x", data[0])
	}
	return true
}

// until takes frames until that text was shown.
func (c *client) until(text string) {
	c.t.Helper()
	for !strings.Contains(c.shown, text) {
		if !c.next() {
			c.t.Fatalf("%q isn't in %q %+v: %v", text, c.shown, c.frames, c.ended)
		}
	}
}

// told takes frames until one of that type.
func (c *client) told(kind string) serverFrame {
	c.t.Helper()
	for seen := 0; ; {
		for ; seen < len(c.frames); seen++ {
			if c.frames[seen].Type == kind {
				return c.frames[seen]
			}
		}
		if !c.next() {
			c.t.Fatalf("no %s in %+v, %q: %v", kind, c.frames, c.shown, c.ended)
		}
	}
}

// end takes all frames to the end, and gives the exit status and the status of the connection's end.
func (c *client) end() (exit int, status websocket.StatusCode) {
	c.t.Helper()
	exit = -1000
	if frame := c.told("exit"); frame.ExitCode != nil {
		exit = *frame.ExitCode
	}
	for c.next() {
	}
	return exit, websocket.CloseStatus(c.ended)
}

func (c *client) types(text string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageBinary, append([]byte{frameInput}, text...)); err != nil {
		c.t.Error(err)
	}
}

func (c *client) says(text string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Error(err)
	}
}

// waits is a program that catches no signal, and says that it is there.
const waits = `awk 'BEGIN { printf "%s-%d\n", "waits", 1+1; fflush(); getline }'`

// A session is a terminal: sizes, keys, signals, the status at its end; and what a client said that can't be is told, and changes nothing.
func TestTerminalSession(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	id := b.session(`{"cwd":"/tmp"}`)
	if got := b.call("GET", "/pty/"+id, "").must(200).body; got != `{"session_id":"`+id+`","running":false,"output_offset":0}` {
		t.Error(got)
	}
	c := b.sit(id, "")
	if frame := c.told("connected"); frame.SessionID != id || frame.Mode != "pty" {
		t.Errorf("%+v", frame)
	}
	c.types("PS1='<''\\#>'; stty size; pwd; echo $TERM; test -t 0 && test -t 1 && test -t 2 && echo all-$((1+2))\n")
	c.until("24 80\r\n/tmp\r\nxterm-256color\r\nall-3\r\n")
	c.says(`{"type":"resize","cols":120,"rows":40}`)
	c.until("<2>")
	c.says(`{"type":"stdin","data":"stty size\n"}`)
	c.until("40 120\r\n")
	for i, stop := range []func(){
		func() { c.types("\x03") },
		func() { c.says(`{"type":"signal","signal":"SIGINT"}`) },
	} {
		c.shown = ""
		c.types(waits + "\n")
		c.until("waits-2")
		stop()
		c.until(fmt.Sprintf("<%d>", 4+2*i))
		c.types("echo status-$?\n")
		c.until("status-130")
		c.until(fmt.Sprintf("<%d>", 5+2*i))
	}
	c.says(`{"type":"ping"}`)
	c.told("pong")
	for i, bad := range []string{`{"type":"reboot"}`, `nothing`, `{"type":"resize","cols":0,"rows":5}`, `{"type":"resize","cols":80,"rows":99999}`, `{"type":"signal","signal":"SIGSEGV"}`, `{"type":"signal"}`} {
		c.frames = nil
		c.says(bad)
		if frame := c.told("error"); frame.Code != "INVALID_FRAME" || frame.Error == "" {
			t.Errorf("%d: %+v", i, frame)
		}
	}
	var status struct {
		Running bool  `json:"running"`
		Offset  int64 `json:"output_offset"`
	}
	if b.call("GET", "/pty/"+id, "").must(200).into(&status); !status.Running || status.Offset == 0 {
		t.Errorf("%+v", status)
	}
	c.types("exit 7\n")
	if exit, closed := c.end(); exit != 7 || closed != websocket.StatusNormalClosure {
		t.Errorf("exit %d, closed %d", exit, closed)
	}
	// It may be begun anew.
	again := b.sit(id, fmt.Sprint("since=", 1<<40))
	again.told("connected")
	again.types("echo again-$((4+4)); exit\n")
	again.until("again-8")
	if exit, _ := again.end(); exit != 0 || again.replayed != "" {
		t.Errorf("exit %d, %q", exit, again.replayed)
	}
	b.call("DELETE", "/pty/"+id, "").must(200)
	b.call("DELETE", "/pty/"+id, "").refused(404)
	b.call("GET", "/pty/"+id, "").refused(404)
}

// Without a terminal the streams are two, and a signal reaches what the shell runs.
func TestTerminalOfPipes(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	c := b.sit(b.session(""), "pty=0")
	if frame := c.told("connected"); frame.Mode != "pipe" {
		t.Errorf("%+v", frame)
	}
	c.types("test -t 0 || echo pipe-$((1+1)); for i in 1 2 3; do echo o$i; echo e$i >&2; done; cat missing; echo over\n")
	c.until("over\n")
	for !strings.Contains(c.errors, "missing") && c.next() {
	}
	if c.shown != "pipe-2\no1\no2\no3\nover\n" || !strings.HasPrefix(c.errors, "e1\ne2\ne3\n") {
		t.Errorf("%q, %q", c.shown, c.errors)
	}
	c.says(`{"type":"resize","cols":10,"rows":10}`)
	c.types("trap 'echo caught' INT\n" + waits + "; echo next-$((1+1))\n")
	c.until("waits-2")
	c.says(`{"type":"signal","signal":"SIGINT"}`)
	c.until("next-2")
	c.types("exit 5\n")
	if exit, _ := c.end(); exit != 5 {
		t.Error(exit, c.shown, c.errors)
	}
}

// What a program changes between its streams arrives in order, and no program makes more of that than is kept.
func TestReplayMarks(t *testing.T) {
	r := newReplay()
	r.write([]byte("before"), true)
	if missed, from := r.follow(2); string(missed) != "fore" || from != 2 {
		t.Errorf("%q from %d", missed, from)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3 * mostMarks {
			r.write([]byte{byte(i)}, i%2 == 1)
		}
	}()
	buffer := make([]byte, 8)
	for i := range 3 * mostMarks {
		piece, errors := r.next(buffer, func() bool { return false })
		if len(piece) != 1 || piece[0] != byte(i) || errors != (i%2 == 1) {
			t.Fatalf("%d: %q, %v", i, piece, errors)
		}
	}
	<-done
	if piece, _ := r.next(buffer, func() bool { return true }); piece != nil {
		t.Errorf("%q", piece)
	}
	r.leave()
	r.write(make([]byte, 3*mostReplay), false)
	if missed, from := r.follow(0); len(missed) != mostReplay || from != r.written()-mostReplay {
		t.Errorf("%d bytes from %d of %d", len(missed), from, r.written())
	}
}

// Who comes back sees what was missed, from the offset that is asked for; a second client waits outside, or takes the place.
func TestTerminalReconnect(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	id := b.session("")
	c := b.sit(id, "")
	c.types("echo one-$((1+1))\n")
	c.until("one-2\r\n")
	offset := int64(len(c.shown))
	if _, response, err := b.dial(id, ""); err == nil || response.StatusCode != 409 {
		t.Errorf("a second client: %v", err)
	}
	taken := b.sit(id, "takeover=1&since=0")
	taken.told("connected")
	for c.next() {
	}
	if websocket.CloseStatus(c.ended) != closeTakenOver {
		t.Errorf("evicted by %v", c.ended)
	}
	if taken.from != 0 || !strings.HasPrefix(taken.replayed, c.shown[:offset]) {
		t.Errorf("replayed %q from %d, shown %q", taken.replayed, taken.from, c.shown)
	}
	taken.types("(sleep 0.2; echo away-$((2+3))) &\n")
	taken.until("&\r\n")
	offset = taken.from + int64(len(taken.shown))
	taken.conn.CloseNow()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // polls for what comes while nobody looks
		var status struct {
			Offset int64 `json:"output_offset"`
		}
		b.call("GET", "/pty/"+id, "").must(200).into(&status)
		if status.Offset > offset {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was written while nobody looked")
		}
	}
	back := b.sit(id, fmt.Sprint("since=", offset))
	back.told("connected")
	if back.from != offset {
		t.Errorf("replayed from %d, want %d", back.from, offset)
	}
	back.until("away-5")
	back.types("exit\n")
	if exit, _ := back.end(); exit != 0 {
		t.Error(exit)
	}
}

// Deleted, a session's tree is gone when the answer is there; whoever sat at it is told.
func TestTerminalDeleted(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	id := b.session(`{"command":"trap '' HUP TERM INT; sleep 4321 & echo there; sleep 4322"}`)
	c := b.sit(id, "")
	c.until("there")
	for deadline := time.Now().Add(20 * time.Second); processes(t, "432") < 2; time.Sleep(5 * time.Millisecond) { // both come after what was read
		if time.Now().After(deadline) {
			t.Fatal("it has no processes")
		}
	}
	b.call("DELETE", "/pty/"+id, "").must(200)
	if n := processes(t, "432"); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	for c.next() {
	}
	if status := websocket.CloseStatus(c.ended); status != websocket.StatusGoingAway && status != -1 {
		t.Errorf("closed by %v", c.ended)
	}
}

// processes counts those of sleep whose time begins so.
func processes(t testing.TB, begin string) (n int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if text, _ := os.ReadFile(line); bytes.HasPrefix(text, []byte("sleep\x00"+begin)) {
			n++
		}
	}
	return n
}

// A client that is away for too long has no session any more, and nothing of it runs.
func TestTerminalOfNobody(t *testing.T) {
	b := serveWith(t, "", func(_ *execd.Config, c *Config) { c.StallTimeout = time.Second }).make(oneKey, "")
	id := b.session(`{"command":"echo there; sleep 5432"}`)
	c := b.sit(id, "")
	c.until("there")
	c.conn.CloseNow()
	for deadline := time.Now().Add(30 * time.Second); b.call("GET", "/pty/"+id, "").status != 404 || processes(t, "5432") > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is still there")
		}
	}
}

// A client that takes nothing holds the program up, and no more is kept for it than for one who is away.
func TestTerminalPace(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	id := b.session(`{"command":"stty -opost; yes 0123456789abcdef | head -c 30000000; echo; echo end"}`)
	c := b.sit(id, "")
	c.told("connected")
	offset := func() (n int64) {
		var status struct {
			Offset int64 `json:"output_offset"`
		}
		b.call("GET", "/pty/"+id, "").must(200).into(&status)
		return status.Offset
	}
	for last := int64(-1); ; time.Sleep(200 * time.Millisecond) { // until it waits
		now := offset()
		if now == last && now > 0 {
			break
		}
		last = now
	}
	if at := offset(); at > 20_000_000 {
		t.Errorf("%d bytes were written, and %d taken", at, len(c.shown))
	}
	total := 0
	for c.next() {
		total += len(c.shown)
		if c.shown != "" && c.frames[len(c.frames)-1].Type == "connected" {
			c.shown = c.shown[max(0, len(c.shown)-100):]
			total -= len(c.shown)
		}
	}
	if !strings.HasSuffix(c.shown, "\nend\n") || total < 30_000_000 {
		t.Errorf("%d bytes, at the end %q: %v", total, c.shown, c.ended)
	}
}

// Who may not, or can't, gets no terminal.
func TestTerminalRefused(t *testing.T) {
	s := serveWith(t, "", func(c *execd.Config, _ *Config) {
		path := filepath.Join(c.PolicyDir, "data.json")
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(data, []byte(`"terminals": true`), []byte(`"terminals": false`), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	b, other := s.make(oneKey, ""), s.make(twoKey, "")
	id := b.session("")
	c := b.sit(id, "")
	if frame := c.told("error"); frame.Code != "START_FAILED" || !strings.Contains(frame.Error, "exec.terminal") {
		t.Errorf("%+v", frame)
	}
	if c.next(); c.ended == nil {
		t.Error("it goes on")
	}
	s.do("POST", b.execd+"/pty", "", headerExecd, other.token).refused(401)
	other.call("GET", "/pty/"+id, "").refused(404)
	for name, row := range map[string]struct {
		session, query string
		headers        []string
		want           int
	}{
		"another's token": {id, "", []string{headerExecd, other.token}, 401},
		"no token":        {id, "", []string{headerExecd, ""}, 401},
		"a page":          {id, "", []string{"Origin", "https://evil.example"}, 403},
		"no session":      {"00000000-0000-4000-8000-000000000000", "", nil, 404},
		"an offset":       {id, "since=x", nil, 400},
	} {
		if _, response, err := b.dial(row.session, row.query, row.headers...); err == nil || response == nil || response.StatusCode != row.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.call("GET", "/pty/"+id+"/ws", "").refused(426)
	b.call("POST", "/pty", `{"cwd":"/a\u0000b"}`).refused(400)
	b.call("POST", "/pty", `[`).refused(400)
}

// What isn't there can't start, and says why.
func TestTerminalNotStarted(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	c := b.sit(b.session(`{"cwd":"/work/none"}`), "")
	if frame := c.told("error"); frame.Code != "START_FAILED" || !strings.Contains(frame.Error, "/work/none") {
		t.Errorf("%+v", frame)
	}
}

// From a terminal nothing is typed into it, no driver is put on it, and no other session's is reached.
func TestTerminalAttacks(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); errors.Is(err, os.ErrNotExist) {
		t.Skip("no python3 to make the calls with")
	}
	b := serve(t, "").make(oneKey, "")
	victim := b.sit(b.session(`{"command":"echo $$ there; read x; echo got-$x"}`), "")
	victim.until("there")
	pid := strings.Fields(victim.shown)[0]
	program := `
import fcntl, os, struct
def tried(name, call):
    try: print(name, 'done', call())
    except OSError as e: print(name, e.errno)
for name, number, argument in (('TIOCSTI', 0x5412, b'x'), ('TIOCLINUX', 0x541c, b'\2'), ('TIOCSETD', 0x5423, struct.pack('i', 13)), ('TIOCCONS', 0x541d, b'')):
    tried(name, lambda: fcntl.ioctl(0, number, argument))
for path in ('/dev/ptmx', '/dev/pts/0', '/dev/pts/ptmx', '/dev/tty', '/proc/` + pid + `/fd/0', '/proc/` + pid + `/fd/1'):
    tried(path, lambda: os.open(path, os.O_RDWR))
tried('peer', lambda: fcntl.ioctl(0, 0x5441, 0))
print('over')
`
	quotedProgram, err := json.Marshal("cat >/work/attack.py <<'END'\n" + program + "END\n")
	if err != nil {
		t.Fatal(err)
	}
	b.run(`{"command":` + string(quotedProgram) + `}`)
	c := b.sit(b.session(`{"command":"python3 /work/attack.py"}`), "")
	c.until("over")
	for _, want := range []string{"TIOCSTI 1\r\n", "TIOCLINUX 1\r\n", "TIOCSETD 1\r\n", "TIOCCONS 1\r\n"} {
		if !strings.Contains(c.shown, want) {
			t.Errorf("%q isn't in %q", want, c.shown)
		}
	}
	if strings.Contains(c.shown, "done") {
		t.Errorf("%q", c.shown)
	}
	victim.types("mine\n")
	victim.until("got-mine\r\n")
}
