package opensandbox

import (
	"context"
	"encoding/json/v2"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/runner"
	"github.com/sandboxd/sandboxd/test/facade"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

func TestMain(m *testing.M) { facade.Main(m) }

// policyDir is a policy that lets a sandbox be open.
func policyDir(t testing.TB) string {
	t.Helper()
	dir := facade.Policy(t, `"default_actions": ["deny"]`, `"default_actions": ["allow", "deny"]`)
	for _, name := range []string{"network.json", "together.json"} { // they say no to what is allowed here
		if err := os.Remove(filepath.Join(dir, "corpus", name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The keys of two owners.
const (
	oneKey = "canary-one-0123456789-0123456789-0123456789"
	twoKey = "canary-two-0123456789-0123456789-0123456789"
)

// server is a façade behind its listener.
type server struct {
	t       testing.TB
	service *execd.Service
	base    string
	state   string
	log     *facade.Log
	client  *http.Client
	stop    func()
}

// serve starts one with its state in a directory of its own, or in one that another had.
func serve(t testing.TB, state string) *server {
	t.Helper()
	return serveWith(t, state, func(*execd.Config, *Config) {})
}

// serveWith is serve with something else in the configurations.
func serveWith(t testing.TB, state string, configure func(*execd.Config, *Config)) *server {
	t.Helper()
	kerneltest.Require(t, kerneltest.Root)
	if state == "" {
		state = t.TempDir()
	}
	s := &server{t: t, state: state, log: &facade.Log{}}
	c := execd.DefaultConfig(s.state)
	c.RunnerPath, c.ClaimFile = filepath.Join(facade.Programs(t, runner.Name), runner.Name), filepath.Join(s.state, "ids")
	c.FirstUID, c.UIDs, c.Pool = 800_000+os.Getpid()%1000*1000, 1000, 0 // no other package's tests have these
	c.PolicyDir, c.DecisionTimeout, c.Resolvers, c.ResolvConf = policyDir(t), 30*time.Second, nil, ""
	c.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(s.log, t.Output()), nil))
	keys := filepath.Join(s.state, "keys")
	if err := os.WriteFile(keys, []byte("one "+oneKey+"\ntwo "+twoKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := DefaultConfig(filepath.Join(s.state, "opensandbox"))
	o.Logger = c.Logger
	var err error
	if o.Keys, err = ReadKeys(keys); err != nil {
		t.Fatal(err)
	}
	configure(&c, &o)
	service, err := execd.New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.service = service
	front, err := Open(service, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + l.Addr().String()
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- service.Serve(ctx, execd.Mount(l, front)) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		front.Close()
		transport.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	return s
}

// answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// do sends a request with headers in pairs.
func (s *server) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	url := s.base + path
	if strings.HasPrefix(path, "http://") {
		url = path
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
	return answer{s.t, response.StatusCode, response.Header, string(data)}
}

// must gives an answer that has that status.
func (a answer) must(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// refused is an answer that says no as clients read it.
func (a answer) refused(status int) {
	a.t.Helper()
	var no struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(a.body), &no); err != nil || a.status != status || no.Code == "" || no.Message == "" {
		a.t.Errorf("status %d, want %d with code and message: %q (%v)", a.status, status, a.body, err)
	}
}

func (a answer) into(to any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), to); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
}

// box is a sandbox with one of its endpoints.
type box struct {
	s       *server
	id, key string
	execd   string
	token   string
}

// make makes a sandbox of an owner.
func (s *server) make(key, more string) box {
	s.t.Helper()
	b := box{s: s, key: key}
	var made, at struct {
		ID       string            `json:"id"`
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}
	s.do("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"entrypoint":["tail","-f","/dev/null"],"timeout":600`+more+`}`, headerKey, key).must(202).into(&made)
	b.id = made.ID
	s.do("GET", "/v1/sandboxes/"+b.id+"/endpoints/44772", "", headerKey, key).must(200).into(&at)
	b.execd, b.token = "http://"+at.Endpoint, at.Headers["X-EXECD-ACCESS-TOKEN"]
	return b
}

// call sends a request to its execd.
func (b box) call(method, path, body string) answer {
	b.s.t.Helper()
	return b.s.do(method, b.execd+path, body, headerExecd, b.token)
}

// event is one of a stream's.
type event struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Timestamp int64  `json:"timestamp"`
	Error     struct {
		Evalue    string   `json:"evalue"`
		Traceback []string `json:"traceback"`
	} `json:"error"`
}

// run runs a command and gives its events, which are as every stream's must be.
func (b box) run(body string) []event {
	b.s.t.Helper()
	a := b.call("POST", "/command", body).must(200)
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") || !strings.HasPrefix(a.body, "{") || !strings.HasSuffix(a.body, "}\n\n") {
		b.s.t.Errorf("%q, %.200q", a.header.Get("Content-Type"), a.body)
	}
	var events []event
	ends := 0
	for _, frame := range strings.Split(strings.TrimSuffix(a.body, "\n\n"), "\n\n") {
		var e event
		if err := json.Unmarshal([]byte(frame), &e); err != nil || e.Timestamp == 0 {
			b.s.t.Fatalf("%q: %v", frame, err)
		}
		if e.Type == "execution_complete" || e.Type == "error" {
			ends++
		}
		events = append(events, e)
	}
	if last := events[len(events)-1].Type; events[0].Type != "init" || ends != 1 || last != "execution_complete" && last != "error" {
		b.s.t.Errorf("the order of events: %+v", events)
	}
	return events
}

// stdout is the text of a command that must succeed.
func (b box) stdout(command string) []string {
	b.s.t.Helper()
	body, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		b.s.t.Fatal(err)
	}
	var texts []string
	for _, e := range b.run(string(body)) {
		switch e.Type {
		case "stdout":
			texts = append(texts, e.Text)
		case "error":
			b.s.t.Errorf("%s: %+v", command, e)
		}
	}
	return texts
}
