package workloads

import (
	"context"
	"encoding/base64"
	"encoding/json/v2"
	"fmt"
	"io"
	"log/slog"
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
)

func TestMain(m *testing.M) { facade.Main(m) }

const (
	testImage = "team/python:3"
	testToken = "canary-0123456789-0123456789-0123456789"
)

// server is a façade behind its listener.
type server struct {
	t       testing.TB
	facade  *Facade
	service *execd.Service
	state   string
	base    string
	client  *http.Client
	log     *facade.Log
	stop    func()
}

// serve starts one; edit changes how it is set up.
func serve(t testing.TB, edit func(*execd.Config, *Config)) *server {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3 that a sandbox could show")
	}
	s := &server{t: t, state: t.TempDir(), log: &facade.Log{}}
	c := execd.DefaultConfig(s.state)
	c.RunnerPath, c.ClaimFile = filepath.Join(facade.Programs(t, runner.Name), runner.Name), filepath.Join(s.state, "ids")
	c.FirstUID, c.UIDs, c.Pool = 700_000+os.Getpid()%1000*1000, 1000, 0 // no other package's tests have these
	c.PolicyDir, c.DecisionTimeout = facade.Policy(t), 30*time.Second
	c.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(s.log, t.Output()), nil))
	w := DefaultConfig(filepath.Join(s.state, "workloads"))
	w.Images, w.Logger = []string{testImage, "other/*:latest"}, c.Logger
	if edit != nil {
		edit(&c, &w)
	}
	token := filepath.Join(s.state, "token")
	if err := os.WriteFile(token, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.service, err = execd.New(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	if s.facade, err = Open(s.service, w); err != nil {
		t.Fatal(err)
	}
	l, err := execd.ListenToken("127.0.0.1:0", token, false)
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + l.Addr().String()
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.service.Serve(ctx, execd.Mount(l, s.facade)) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		s.facade.Close()
		transport.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	return s
}

// answer is a response, whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *server) do(method, path, body string, tokens ...string) answer {
	s.t.Helper()
	request, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if tokens == nil {
		tokens = []string{"Bearer " + testToken}
	}
	request.Header["Authorization"] = tokens
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		s.t.Errorf("%s %s is redirected: the client doesn't follow", method, path)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

// spec is what a create request of a test has.
type spec struct {
	image    string
	context  string // JSON
	resource string // JSON
	env      map[string]string
}

// payload is a create request as the client makes it.
func payload(code string, edit func(*spec)) string {
	s := spec{image: testImage, resource: `{"cpu":1,"memory":536870912}`, env: map[string]string{
		codeVariable: base64.StdEncoding.EncodeToString([]byte(code)), inVariable: base64.StdEncoding.EncodeToString([]byte("{}")), timeVariable: "20",
	}}
	if edit != nil {
		edit(&s)
	}
	list := []map[string]string{}
	for name, value := range s.env {
		list = append(list, map[string]string{"name": name, "value": value})
	}
	env, _ := json.Marshal(list) // strings always have a JSON form
	securityContext := ""
	if s.context != "" {
		securityContext = `,"securityContext":` + s.context
	}
	return fmt.Sprintf(`{"name":"dr-sandbox-0123456789ab","artifact":{"name":"dr-sandbox-artifact-0123456789ab","type":"service","spec":{"containerGroups":[{"name":"default",`+
		`"containers":[{"name":"sandbox","imageUri":%q,"primary":true,"port":8080,"environmentVars":%s%s}]}]}},`+
		`"runtime":{"containerGroups":[{"name":"default","replicaCount":1,"containers":[{"name":"sandbox","resourceAllocation":%s}]}]}}`,
		s.image, env, securityContext, s.resource)
}

func timeout(seconds string) func(*spec) {
	return func(s *spec) { s.env[timeVariable] = seconds }
}

// created makes a workload.
func (s *server) created(body string) string {
	s.t.Helper()
	got := s.do("POST", "/api/v2/workloads/", body)
	var d document
	if err := json.Unmarshal([]byte(got.body), &d); err != nil || got.status != 201 || d.ID == "" || d.ID != d.WorkloadID || d.Status == "" {
		s.t.Fatalf("create: %d %s", got.status, got.body)
	}
	return d.ID
}

// until polls the status until it is one that ends, as the client does, and gives the document, or the answer where there is none.
func (s *server) until(id string, words ...string) (document, answer) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // polls what the test is about
		got := s.do("GET", "/api/v2/workloads/"+id, "")
		var d document
		if got.status != 200 {
			return d, got
		}
		if err := json.Unmarshal([]byte(got.body), &d); err != nil {
			s.t.Fatalf("%s: %v", got.body, err)
		}
		for _, word := range append(words, statusSucceeded, statusErrored, statusTimeout) {
			if d.Status == word {
				return d, got
			}
		}
	}
	s.t.Fatalf("%s: still not ended", id)
	return document{}, answer{}
}

type logs struct {
	Count    int     `json:"count"`
	Next     *string `json:"next"`
	Previous *string `json:"previous"`
	Data     []entry `json:"data"`
}

func (s *server) logs(id, query string) logs {
	s.t.Helper()
	got := s.do("GET", "/api/v2/otel/workload/"+id+"/logs/"+query, "")
	var l logs
	if err := json.Unmarshal([]byte(got.body), &l, json.RejectUnknownMembers(true)); err != nil || got.status != 200 {
		s.t.Fatalf("logs: %d %.300s: %v", got.status, got.body, err)
	}
	return l
}

// result is what the client makes of a workload.
type result struct {
	status         string
	exit           int
	stdout, stderr string
	marker         string
}

// read joins messages as the client does, and takes the last entry for the marker's.
func (l logs) read(t testing.TB) (r result) {
	t.Helper()
	var out, errs []string
	for _, e := range l.Data {
		message := strings.TrimRight(e.Message, "\n")
		switch e.Level {
		case levelError:
			errs = append(errs, message)
		default:
			out = append(out, message)
		}
		if _, err := time.Parse(time.RFC3339Nano, e.Timestamp); err != nil {
			t.Error(err)
		}
	}
	if len(out) == 0 || out[len(out)-1] != l.Data[len(l.Data)-1].Message {
		t.Fatalf("the last entry isn't the last of stdout: %+v", l.Data)
	}
	var found bool
	if r.marker, found = strings.CutPrefix(out[len(out)-1], "__DR_SANDBOX_RESULT__:"); !found {
		t.Fatalf("the last entry is no marker: %.200q", out[len(out)-1])
	}
	r.stdout, r.stderr = strings.Join(out[:len(out)-1], "\n"), strings.Join(errs, "\n")
	return r
}

// run makes a workload, waits for its end and deletes it.
func (s *server) run(code string, edit func(*spec)) result {
	s.t.Helper()
	id := s.created(payload(code, edit))
	d, got := s.until(id)
	if got.status != 200 {
		s.t.Fatalf("%d %s", got.status, got.body)
	}
	r := s.logs(id, "").read(s.t)
	r.status, r.exit = d.Status, *d.ExitCode
	if gone := s.do("DELETE", "/api/v2/workloads/"+id, ""); gone.status != 204 {
		s.t.Errorf("delete: %d %s", gone.status, gone.body)
	}
	return r
}
