package opensandbox

import (
	"bufio"
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// cellEvent is one of a cell's stream.
type cellEvent struct {
	Type      string            `json:"type"`
	Text      string            `json:"text"`
	Timestamp int64             `json:"timestamp"`
	Count     int               `json:"execution_count"`
	Results   map[string]string `json:"results"`
	Error     struct {
		Name      string   `json:"ename"`
		Value     string   `json:"evalue"`
		Traceback []string `json:"traceback"`
	} `json:"error"`
}

// cell is what came of one: its events are as every stream's must be.
type cell struct {
	t      testing.TB
	events []cellEvent
}

func cellOf(t testing.TB, a answer) cell {
	t.Helper()
	a.must(200)
	c := cell{t: t}
	ends := 0
	for frame := range strings.SplitSeq(strings.TrimSuffix(a.body, "\n\n"), "\n\n") {
		var e cellEvent
		if err := json.Unmarshal([]byte(frame), &e); err != nil || e.Timestamp == 0 {
			t.Fatalf("%q: %v", frame, err)
		}
		if e.Type == "execution_complete" || e.Type == "error" {
			ends++
		}
		c.events = append(c.events, e)
	}
	if last := c.last().Type; c.events[0].Type != "init" || ends != 1 || last != "execution_complete" && last != "error" {
		t.Errorf("the order of events: %+v", c.events)
	}
	return c
}

func (c cell) last() cellEvent { return c.events[len(c.events)-1] }

// texts are those of a kind of event.
func (c cell) texts(kind string) []string {
	var texts []string
	for _, e := range c.events {
		if e.Type == kind {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// results are the results.
func (c cell) results() []map[string]string {
	var results []map[string]string
	for _, e := range c.events {
		if e.Type == "result" {
			results = append(results, e.Results)
		}
	}
	return results
}

// ok fails the test where the cell ended in an error.
func (c cell) ok() cell {
	c.t.Helper()
	if c.last().Type != "execution_complete" {
		c.t.Fatalf("%+v", c.events)
	}
	return c
}

// code runs a cell in a context; empty: in the one of cells that name none.
func (b box) code(context, code string) cell {
	b.s.t.Helper()
	return cellOf(b.s.t, b.call("POST", "/code", codeBody(context, code)))
}

func codeBody(context, code string) string {
	in := map[string]string{"language": "python"}
	if context != "" {
		in["id"] = context
	}
	body, err := json.Marshal(map[string]any{"code": code, "context": in})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// TestCodeKeepsState: what a cell leaves is there for the next, in its context and nowhere else.
func TestCodeKeepsState(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	first := b.code("", "import math\nx = 40\nprint('begun')").ok()
	if out := first.texts("stdout"); len(out) != 1 || out[0] != "begun" || len(first.results()) != 0 {
		t.Errorf("%+v", first.events)
	}
	second := b.code("", "x + 2").ok()
	if r := second.results(); len(r) != 1 || r[0]["text/plain"] != "42" || r[0]["text"] != "42" {
		t.Errorf("%+v", second.events)
	}
	for i, c := range []cell{first, second} {
		if e := c.events[1]; e.Type != "execution_count" || e.Count != i+1 {
			t.Errorf("cell %d: %+v", i+1, c.events)
		}
	}
	failed := b.code("", "def f():\n    return nowhere\nf()").last()
	if failed.Error.Name != "NameError" || !strings.Contains(failed.Error.Value, "nowhere") || !strings.Contains(strings.Join(failed.Error.Traceback, "\n"), "return nowhere") {
		t.Errorf("%+v", failed)
	}
}

// begin runs a cell that says so, and gives what comes of it when asked.
func (b box) begin(context, code string) (end func() cell) {
	b.s.t.Helper()
	r, err := http.NewRequest("POST", b.execd+"/code", strings.NewReader(codeBody(context, code)))
	if err != nil {
		b.s.t.Fatal(err)
	}
	r.Header.Set(headerExecd, b.token)
	response, err := b.s.client.Do(r)
	if err != nil {
		b.s.t.Fatal(err)
	}
	var begun strings.Builder
	reader := bufio.NewReader(response.Body)
	for !strings.Contains(begun.String(), `"stdout"`) {
		line, err := reader.ReadString('\n')
		begun.WriteString(line)
		if err != nil {
			b.s.t.Fatalf("%s: %v", &begun, err)
		}
	}
	return func() cell {
		b.s.t.Helper()
		defer response.Body.Close()
		rest, err := io.ReadAll(reader)
		if err != nil {
			b.s.t.Errorf("%s: %v", &begun, err)
		}
		return cellOf(b.s.t, answer{b.s.t, response.StatusCode, response.Header, begun.String() + string(rest)})
	}
}

// context makes a code context.
func (b box) context() string {
	b.s.t.Helper()
	var made wireContext
	b.call("POST", "/code/context", `{"language":"python"}`).must(200).into(&made)
	if made.ID == "" || made.Language != "python" {
		b.s.t.Errorf("%+v", made)
	}
	return made.ID
}

// contexts are their ids.
func (b box) contexts() []string {
	b.s.t.Helper()
	var list []wireContext
	b.call("GET", "/code/contexts?language=python", "").must(200).into(&list)
	ids := []string{}
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

// TestCodeContexts: they are made, found, listed and deleted, each with names of its own; and what can't be is refused.
func TestCodeContexts(t *testing.T) {
	s := serveWith(t, "", func(_ *execd.Config, c *Config) { c.ContextsKept = 3 })
	b := s.make(oneKey, "")
	if got := b.contexts(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	one, two := b.context(), b.context()
	b.code(one, "where = 'one'").ok()
	if got := b.code(two, "where").last().Error.Name; got != "NameError" {
		t.Errorf("the other context: %s", got)
	}
	standard := b.code("", "1").ok().events[0].Text
	if got := b.contexts(); !slices.Equal(got, []string{one, two, standard}) {
		t.Errorf("%q", got)
	}
	b.call("POST", "/code/context", `{"language":"python"}`).refused(400)
	b.call("GET", "/code/contexts/"+one, "").must(200)
	b.call("DELETE", "/code/contexts/"+one, "").must(200)
	b.call("GET", "/code/contexts/"+one, "").refused(404)
	b.call("POST", "/code", codeBody(one, "1")).refused(404)
	b.call("DELETE", "/code/contexts?language=java", "").must(200)
	if got := b.contexts(); !slices.Equal(got, []string{two, standard}) {
		t.Errorf("%q", got)
	}
	b.call("DELETE", "/code/contexts?language=python", "").must(200)
	if got := b.contexts(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for _, row := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/code/context", `{"language":"java"}`, 400}, {"POST", "/code/context", `{}`, 400}, {"POST", "/code/context", ``, 400},
		{"POST", "/code/context", `{"language":"python","cwd":"/no/such"}`, 400},
		{"POST", "/code", `{"code":"1","context":{"language":"bash"}}`, 400}, {"POST", "/code", `{"code":"1"}`, 400},
		{"POST", "/code", `{"code":" ","context":{"language":"python"}}`, 400}, {"POST", "/code", `{"code":"1","context":{"language":"python"},"timeout":-1}`, 400},
		{"POST", "/code", `{"code":"a\u0000b","context":{"language":"python"}}`, 400}, {"POST", "/code", codeBody("none", "1"), 404},
		{"DELETE", "/code", "", 400}, {"DELETE", "/code?id=none", "", 404}, {"DELETE", "/code/contexts", "", 400}, {"GET", "/code/contexts/none", "", 404},
	} {
		b.call(row.method, row.path, row.body).refused(row.status)
	}
	other := s.make(twoKey, "")
	mine := b.context()
	other.call("GET", "/code/contexts/"+mine, "").refused(404)
	other.call("POST", "/code", codeBody(mine, "1")).refused(404)
	s.do("POST", b.execd+"/code", codeBody(mine, "1"), headerExecd, other.token).refused(401)
	if got := b.code(mine, "__name__, __import__('os').getcwd()").ok().results()[0]["text"]; got != "('__main__', '/work')" {
		t.Error(got)
	}
}

// TestCodeResults: an object is shown as it says itself, in every form that it has, in the order of what the cell writes.
func TestCodeResults(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	rich := b.code("", `
class Rich:
    def __repr__(self): return "plain\x85"
    def _repr_html_(self): return "<b>é</b>"
    def _repr_png_(self): return b"\x89PNG"
    def _repr_svg_(self): return "<svg/>"
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_latex_(self): raise NotImplementedError
    def _repr_markdown_(self): raise ValueError("broken")
    def _repr_mimebundle_(self, include=None, exclude=None): return {"application/x-own": {"b": 2}}, {}
Rich()`).ok()
	want := map[string]string{"text": "plain\u0085", "text/plain": "plain\u0085", "text/html": "<b>é</b>", "image/png": "iVBORw==", "image/svg+xml": "<svg/>",
		"application/json": `{"a": [1, null]}`, "application/x-own": `{"b": 2}`}
	if got := rich.results(); len(got) != 1 || !maps.Equal(got[0], want) {
		t.Errorf("%+v", got)
	}
	if got := rich.texts("stderr"); !slices.Equal(got, []string{"_repr_markdown_: ValueError: broken"}) {
		t.Errorf("%q", got)
	}
	var order []string
	for _, e := range b.code("", "print('one')\ndisplay(1, 2)\nprint('two')\ndisplay(3)\nprint('three', end='')\n4").ok().events[2:] {
		order = append(order, e.Text+e.Results["text"])
	}
	if !slices.Equal(order, []string{"one", "1", "2", "two", "3", "4", "three", ""}) { // a line that has no end yet waits for it
		t.Errorf("%q", order)
	}
	for code, want := range map[string]string{
		"5;": "", "x = 5": "", "None": "", "5 # five": "5", "_": "5", "import asyncio\nawait asyncio.sleep(0, 'awaited')": "'awaited'",
		"'x' * 300000": "'" + strings.Repeat("x", 256<<10-1) + "… (37858 characters more)", "type('T', (), {'_repr_html_': lambda self: 'b'})": "<class '__main__.T'>",
	} {
		got := ""
		for _, r := range b.code("", code).ok().results() {
			got += r["text"]
		}
		if got != want {
			t.Errorf("%s: %.100q, want %.100q", code, got, want)
		}
	}
	large := b.code("", "class L:\n    def _repr_html_(self): return 'x' * (3 << 20)\n    def _repr_png_(self): return bytes(2 << 20)\nL()").ok()
	if r := large.results(); len(r) != 1 || r[0]["text/html"] != "" || len(r[0]["image/png"]) < 2<<20 || len(large.texts("stderr")) != 1 {
		t.Errorf("%d results, %q", len(r), large.texts("stderr"))
	}
	for code, want := range map[string]string{
		"import sys; sys.exit(3)": "SystemExit: 3", "1 +": "SyntaxError: invalid syntax", "raise Exception('a\\x85b')": "Exception: a\u0085b", "input()": "EOFError: EOF when reading a line",
		"class B:\n    def __repr__(self): return 1 / 0\nB()": "ZeroDivisionError: division by zero", "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})": "E: <no text: str of it fails>",
	} {
		e := b.code("", code).last().Error
		trace := strings.Join(e.Traceback, "\n")
		if got := e.Name + ": " + strings.TrimSuffix(e.Value, " (<cell 12>, line 1)"); got != want && !strings.HasPrefix(got, want+" (<cell ") {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
		if strings.Contains(trace, "<string>") || !strings.Contains(trace, "<cell ") {
			t.Errorf("%s: %s", code, trace)
		}
	}
}

// TestCodeIsConfined: a cell is as a command is: what is forbidden there fails here, with the same errno.
func TestCodeIsConfined(t *testing.T) {
	b := serve(t, "").make(oneKey, `,"networkPolicy":{"defaultAction":"deny"}`)
	for _, row := range []struct{ code, want string }{
		{"import os; os.setuid(0)", "PermissionError: [Errno 1]"},
		{"open('/etc/written', 'w')", "OSError: [Errno 30]"},
		{"import socket; socket.socket(socket.AF_VSOCK)", "OSError: [Errno 97]"},
		{"import socket; socket.create_connection(('192.0.2.1', 80), 5)", "PermissionError: [Errno 13]"},
		{"import os; os.kill(1, 9)", "PermissionError: [Errno 1]"},
	} {
		if e := b.code("", row.code).last().Error; !strings.HasPrefix(e.Name+": "+e.Value, row.want) {
			t.Errorf("%s: %+v, want %s", row.code, e, row.want)
		}
	}
	status := b.code("", "print(*(l for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:', 'CapEff', 'CapBnd'))), sep='')").ok()
	if got := strings.Join(status.texts("stdout"), " "); !strings.Contains(got, "CapEff:\t0000000000000000 CapBnd:\t0000000000000000 NoNewPrivs:\t1 Seccomp:\t2") {
		t.Errorf("%q", got)
	}
	environment := strings.Join(b.code("", "import os; print(dict(os.environ), open('/proc/self/cmdline').read())").ok().texts("stdout"), "\n")
	if strings.Contains(environment, b.token) || strings.Contains(environment, oneKey) {
		t.Error("a token of ours is there")
	}
}

// TestCodeDecidedAgain: each cell is judged by the policy that is in force when its turn comes; what the interpreter has is kept meanwhile.
func TestCodeDecidedAgain(t *testing.T) {
	var dir string
	s := serveWith(t, "", func(c *execd.Config, _ *Config) { dir = c.PolicyDir })
	b := s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny"}`) // an open one would be closed with its owner's right to it, and stay so
	b.code("", "kept = 1").ok()
	path := filepath.Join(dir, "data.json")
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ from, to, rule string }{
		{`"ALL_PROXY": "`, `"EXECD_ENVS": "no more of it", "ALL_PROXY": "`, "no more of it"},
		{`"seccomp_runtime_default": ""`, `"seccomp_runtime_default": "sandboxd/strict"`, "host.context"},
		{`"opensandbox", "socket", "token"`, `"socket", "token"`, "caller."},
	} {
		changed := strings.Replace(string(original), row.from, row.to, 1)
		if changed == string(original) {
			t.Fatalf("data.json has no %s", row.from)
		}
		replacePolicy(t, path, []byte(changed))
		refused := untilCode(t, b, row.rule, func(c cell) bool { return c.last().Type == "error" })
		if e := refused.last().Error; e.Name != nameRefused || !strings.Contains(e.Value, row.rule) || !strings.Contains(strings.Join(refused.texts("stderr"), ""), row.rule) {
			t.Errorf("%s: %+v", row.rule, refused.events)
		}
		replacePolicy(t, path, original)
		again := untilCode(t, b, "the original", func(c cell) bool { return c.last().Type != "error" })
		if got := again.results(); len(got) != 1 || got[0]["text"] != "1" {
			t.Errorf("%s: %+v", row.rule, again.events)
		}
	}
}

// replacePolicy puts a policy file in place at once.
func replacePolicy(t *testing.T, path string, data []byte) {
	t.Helper()
	aside := filepath.Join(t.TempDir(), "data.json")
	if err := os.WriteFile(aside, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
}

// untilCode runs a cell until it ends as the policy that was put in place has it: nobody says when it is in force.
func untilCode(t *testing.T, b box, what string, good func(cell) bool) cell {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(50 * time.Millisecond) { // polls what the test is about
		c := b.code("", "kept")
		if good(c) {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it isn't in force: %+v", what, c.events)
		}
	}
}

// TestCodeIsRecorded: each cell has its own release, with decision and proof, before it, and an outcome after it; the code itself is in none.
func TestCodeIsRecorded(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	b.code("", "canary_code = 1").ok()
	b.code("", "1 / 0")
	s.stop()
	kinds := map[string][]string{}
	of := map[string]string{}
	for _, path := range glob(t, filepath.Join(s.state, "audit", "audit-*.jsonl")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("canary_code")) {
			t.Error("the code is in the log")
		}
		for line := range bytes.Lines(data) {
			var r struct {
				audit.Record
				Ending struct {
					Outcome string `json:"outcome"`
				} `json:"ending"`
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if r.Exec == "" {
				continue
			}
			if r.Context != "" {
				of[r.Exec] = r.Context
			}
			text := string(r.Type) + " " + r.Ending.Outcome
			if r.Type == audit.TypeRelease {
				text += fmt.Sprint(r.Verdict.Held, " ", r.Decision.Allow, " ", r.Request.Code != nil, " ", r.Caller.Name)
			}
			kinds[r.Exec] = append(kinds[r.Exec], text)
		}
	}
	var cells, interpreters []string
	for exec, said := range kinds {
		if of[exec] != "" {
			cells = append(cells, strings.Join(said, ", "))
			interpreters = append(interpreters, strings.Join(kinds[of[exec]], ", "))
		}
	}
	slices.Sort(cells)
	if !slices.Equal(cells, []string{"release true true true one, outcome error", "release true true true one, outcome ok"}) {
		t.Errorf("cells: %q", cells)
	}
	if !slices.Equal(interpreters, []string{"release true true false one, outcome cancelled", "release true true false one, outcome cancelled"}) {
		t.Errorf("interpreters: %q", interpreters)
	}
}

// channelFD is the interpreter's end of its channel.
const channelFD = 4

// TestCodeHostile: whatever a cell does to its interpreter, its stream has one end, which says what happened, and nobody else can write it.
func TestCodeHostile(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	forged := func(number int) string {
		return fmt.Sprintf("os.write(%d, b'%%c' + (%d).to_bytes(8, 'big') + b'\\0' + b'{}')", channelFD, number)
	}
	for _, row := range []struct {
		name, code string
		// name and value are those of the error, empty: none; gone says that the context is.
		error, value string
		gone         bool
		stdout       string
	}{
		{"exits", "import os; print('said', flush=True); os._exit(0)", nameEnded, "exit status 0", true, "said"},
		{"is killed", "import os; print('said'); os.kill(os.getpid(), 9)", nameEnded, "signal: killed", true, "said"},
		{"aborts", "import os; os.abort()", nameEnded, "signal: aborted", true, ""},
		{"closes everything", "import os; os.closerange(0, 4096)", nameEnded, "", true, ""},
		{"closes the channel", fmt.Sprintf("import os; os.close(%d); f = open('/tmp/mine', 'wb')", channelFD), nameEnded, "", true, ""},
		{"shuts the channel", fmt.Sprintf("import socket; socket.socket(fileno=%d).shutdown(2)", channelFD), nameEnded, "", true, ""},
		{"sends nothing", fmt.Sprintf("import os; os.write(%d, b''); print('said', flush=True); input()", channelFD), nameEnded, "", true, "said"},
		{"forges its end in a child", "import os\nif os.fork() == 0:\n    " + strings.Replace(forged(1), "%c", "d", 1) + "; os._exit(0)\nos.wait(); print('said')", "", "", false, "said"},
		{"forges its error in a child", "import os\nif os.fork() == 0:\n    " + strings.Replace(forged(1), "%c", "e", 1) + "; os._exit(0)\nos.wait(); print('said')", "", "", false, "said"},
		{"forks and forgets", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0); print('said')\npid", "", "", false, "said"},
		{"forks what fails", "import os\nif os.fork() == 0: 1 / 0\nprint('said', os.wait()[1])", "", "", false, "said 256"},
		{"forges the end of the next", "import os\n" + strings.Replace(forged(2), "%c", "d", 1) + "\nprint('said')", "", "", false, "said"},
		{"floods", fmt.Sprintf("import os\nfor i in range(2000): os.write(%d, b'x' * 20000)\nprint('said')", channelFD), "", "", false, "said"},
		{"a frame without an end", fmt.Sprintf("import os\nfor i in range(300): os.write(%d, b'r' + (1).to_bytes(8, 'big') + b'\\1' + b'x' * 32000)\nprint('said')", channelFD), "", "", false, "said"},
		{"no result", "import os\n" + strings.Replace(forged(1), "%c", "r", 1) + "\n" + strings.Replace(strings.Replace(forged(1), "%c", "r", 1), "{}", "[", 1) + "\nprint('said')", "", "", false, "said"},
		{"passes descriptors", fmt.Sprintf("import socket, array\nchannel = socket.fromfd(%d, socket.AF_UNIX, socket.SOCK_SEQPACKET)\nfor i in range(50): channel.sendmsg([b'x' * 20], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\nchannel.close(); print('said')", channelFD), "", "", false, "said"},
		{"replaces what the driver uses", "import os, json, sys, traceback\nos.write = os.read = json.dumps = traceback.format_exception = None\nsys.stdout.flush()\nprint('said')", "", "", false, "said"},
		{"leaves a thread that writes on", "import sys, threading, time\ndef on():\n    while True:\n        sys.stdout.write('on\\n'); time.sleep(0.01)\nthreading.Thread(target=on, daemon=True).start(); sys.stdout.write('said\\n')", "", "", false, "said"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := b
			own := *b.s
			own.t, b.s = t, &own
			context := b.context()
			c := b.code(context, row.code)
			e := c.last().Error
			if e.Name != row.error || !strings.HasPrefix(e.Value, row.value) {
				t.Errorf("%+v", c.events)
			}
			if row.stdout != "" && !slices.Contains(c.texts("stdout"), row.stdout) {
				t.Errorf("stdout %q", c.texts("stdout"))
			}
			if row.gone {
				b.call("GET", "/code/contexts/"+context, "").refused(404)
				return
			}
			if got := b.code(context, "6 * 7").ok().results(); len(got) != 1 || got[0]["text"] != "42" {
				t.Errorf("the next cell: %+v", got)
			}
			b.call("DELETE", "/code/contexts/"+context, "").must(200)
		})
	}
}

// TestCodeInterrupt: a cell that is interrupted, or whose time is over, ends with what it has left kept; one that goes on ends with its context.
func TestCodeInterrupt(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	context := b.context()
	b.call("DELETE", "/code?id="+context, "").must(200) // nothing runs
	end := b.begin(context, "kept = 1\nprint('begun')\nwhile True: pass")
	b.call("DELETE", "/code?id="+context, "").must(200)
	if e := end().last().Error; e.Name != "KeyboardInterrupt" || !strings.Contains(strings.Join(e.Traceback, "\n"), `File "<cell 1>"`) || strings.Contains(strings.Join(e.Traceback, "\n"), "on_interrupt") {
		t.Errorf("%+v", e)
	}
	late := cellOf(t, b.call("POST", "/code", `{"code":"import time; kept += 1; time.sleep(600)","context":{"id":"`+context+`","language":"python"},"timeout":300}`)).last().Error
	if late.Name != nameCellTimeout || !strings.Contains(late.Value, "0.3 s") || !strings.Contains(strings.Join(late.Traceback, "\n"), "KeyboardInterrupt") {
		t.Errorf("%+v", late)
	}
	if got := b.code(context, "kept").ok().results(); got[0]["text"] != "2" {
		t.Errorf("%+v", got)
	}
	end = b.begin(context, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\nwhile True: pass")
	b.call("DELETE", "/code?id="+context, "").must(200)
	if e := end().last().Error; e.Name != nameEnded {
		t.Errorf("%+v", e)
	}
	b.call("POST", "/code", codeBody(context, "kept")).refused(404)
}

// TestCodeQueue: one cell runs at a time in a context, so many wait, and the next is refused.
func TestCodeQueue(t *testing.T) {
	b := serveWith(t, "", func(_ *execd.Config, c *Config) { c.CellsQueued = 1 }).make(oneKey, "")
	context := b.context()
	end := b.begin(context, "print('begun')\nwhile True: pass")
	waited := make(chan answer, 2)
	for range 2 {
		go func() { waited <- b.call("POST", "/code", codeBody(context, "1")) }()
	}
	(<-waited).refused(400)
	b.call("DELETE", "/code?id="+context, "").must(200)
	end()
	cellOf(t, <-waited).ok()
}

// TestCodeEndsWithItsSandbox: a stream that is open ends, and nothing runs in a sandbox that is paused.
func TestCodeEndsWithItsSandbox(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	context := b.context()
	b.code(context, "kept = 1").ok()
	s.do("POST", "/v1/sandboxes/"+b.id+"/pause", "", headerKey, oneKey).must(202)
	if e := b.code(context, "kept").last().Error; e.Name != nameRefused || !strings.Contains(e.Value, "paused") {
		t.Errorf("%+v", e)
	}
	s.do("POST", "/v1/sandboxes/"+b.id+"/resume", "", headerKey, oneKey).must(202)
	b.code(context, "kept").ok()
	end := b.begin(context, "print('begun')\nwhile True: pass")
	s.do("DELETE", "/v1/sandboxes/"+b.id, "", headerKey, oneKey).must(204)
	if e := end().last().Error; e.Name != nameEnded {
		t.Errorf("%+v", e)
	}
	b.call("GET", "/code/contexts/"+context, "").refused(401)
}

// TestCodeWithoutMemory: an interpreter that is killed for memory says so, once.
func TestCodeWithoutMemory(t *testing.T) {
	b := serve(t, "").make(oneKey, `,"resourceLimits":{"memory":"256Mi"}`)
	c := b.code("", "import os, time\nprint('begun')\nwhile True:\n    if os.fork() == 0:\n        held = bytearray(64 << 20); time.sleep(600)\n    time.sleep(0.05)")
	if e := c.last().Error; e.Name != nameEnded || !strings.Contains(e.Value, "out of memory") || len(b.contexts()) != 0 {
		t.Errorf("%+v", c.events)
	}
	if got := c.texts("stderr"); len(got) != 1 || !strings.Contains(got[0], "OOMKilled") {
		t.Errorf("%q", got)
	}
	if got := b.code("", "1").ok().events[1].Count; got != 1 {
		t.Errorf("the next context begins with cell %d", got)
	}
}
