package network

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// daemon is sandboxd as it is installed, in the test network.
type daemon struct {
	w      *World
	bin    string
	state  string
	client *http.Client
	log    safeBuffer
	ended  chan struct{}
	*exec.Cmd
}

// safeBuffer may be read while a process writes to it.
type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(data)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// startDaemon starts one whose policy lets out what the specs do, and waits until it is ready.
func startDaemon(t *testing.T, w *World, specs []policy.NetworkSpec, flags ...string) *daemon {
	t.Helper()
	// A socket's path is short.
	state, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	d := &daemon{w: w, bin: programs(t), state: state, ended: make(chan struct{})}
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket())
	}}}
	d.Cmd = exec.Command(filepath.Join(d.bin, "sandboxd"), append([]string{
		"serve", "--socket", d.socket(), "--state", filepath.Join(state, "state"), "--policy", bundleFor(t, specs...), "--resolver", w.Resolver.String(),
		"--show", w.Dir, "--show", d.bin, "--probe-interval", "0", "--claim-file", filepath.Join(state, "ids"),
	}, flags...)...)
	d.Stdout, d.Stderr = &d.log, &d.log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		_ = d.Wait()
	}()
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		_ = d.Process.Signal(os.Interrupt)
		select {
		case <-d.ended:
		case <-time.After(30 * time.Second):
			_ = d.Process.Kill()
			<-d.ended
			t.Error("the daemon doesn't end")
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // polls the state that the test is about
		if response, err := d.client.Get("http://sandboxd/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return d
			}
		}
		select {
		case <-d.ended:
			t.Fatalf("the daemon ended at its start: %v\n%s", d.ProcessState, d.log.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon isn't ready\n%s", d.log.String())
		}
	}
}

func (d *daemon) socket() string { return filepath.Join(d.state, "run", "s") }

// ask gives status and body of an answer; a failure to answer is the test's.
func (d *daemon) ask(t *testing.T, method, path string, body any) (int, []byte) {
	t.Helper()
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body, json.OmitZeroStructFields(true)); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, "http://sandboxd"+path, strings.NewReader(wire(content)))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := d.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, d.log.String())
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, data
}

// box is a kept sandbox of a daemon.
type box struct {
	*daemon
	id string
}

// keep makes a sandbox whose network is as rules say, proven by what the change answers.
func (d *daemon) keep(t *testing.T, rules policy.NetworkSpec) box {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	status, data := d.ask(t, http.MethodPost, "/v1/sandboxes", struct{}{})
	if err := json.Unmarshal(data, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("sandbox: %d %s", status, data)
	}
	b := box{d, made.ID}
	t.Cleanup(b.end)
	b.put(t, rules)
	return b
}

func (b box) put(t *testing.T, rules policy.NetworkSpec) {
	t.Helper()
	status, data := b.ask(t, http.MethodPut, "/v1/network?sandbox="+b.id, rules)
	b.proven(t, status, data)
}

// proven: the sandbox is read back now, its fence above all, and the rules in force are those that are wanted.
func (b box) proven(t *testing.T, status int, data []byte) {
	t.Helper()
	var reply execd.NetworkReply
	if err := json.Unmarshal(data, &reply); err != nil || status != http.StatusOK {
		t.Fatalf("network: %d %s", status, data)
	}
	if !reply.Verdict.Held || reply.Proven != reply.Wanted || reply.Verdict.Evidence.Kernel < 20 {
		t.Errorf("not proven: %s", data)
	}
}

func (b box) readBack(t *testing.T) {
	t.Helper()
	status, data := b.ask(t, http.MethodGet, "/v1/network?sandbox="+b.id, nil)
	b.proven(t, status, data)
}

// command is an exec's, as a request has it.
type command struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
}

// run has a client run in the sandbox, and gives what it said, both of its outputs, and its exit status at the end.
func (b box) run(t *testing.T, argv ...string) string {
	t.Helper()
	status, data := b.ask(t, http.MethodPost, "/v1/exec", map[string]any{"sandbox": b.id, "command": command{argv, b.environment()}})
	var reply execd.Reply
	if err := json.Unmarshal(data, &reply); err != nil || status != http.StatusOK {
		t.Fatalf("exec: %d %s", status, data)
	}
	if reply.ExitCode == nil || !reply.Verdict.Held {
		t.Fatalf("exec: %s", data)
	}
	stdout, stderr := reply.Output()
	return fmt.Sprintf("%s exit %d", strings.TrimSpace(string(stdout)+string(stderr)), *reply.ExitCode)
}

// begin has a client run that is ended with its sandbox, or with the daemon: its answer doesn't matter. done is closed when there is one, or none will come.
func (b box) begin(t *testing.T, argv ...string) (done chan struct{}) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"sandbox": b.id, "command": command{argv, b.environment()}})
	if err != nil {
		t.Fatal(err)
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		if response, err := b.client.Post("http://sandboxd/v1/exec", "application/json", bytes.NewReader(data)); err == nil {
			response.Body.Close()
		}
	}()
	return done
}

// end deletes the sandbox.
func (b box) end() {
	request, err := http.NewRequest(http.MethodDelete, "http://sandboxd/v1/sandboxes/"+b.id, nil)
	if err != nil {
		panic(err)
	}
	if response, err := b.client.Do(request); err == nil { // a test may have ended the daemon, or deleted the sandbox
		response.Body.Close()
	}
}

func (d *daemon) environment() map[string]string {
	return map[string]string{
		"HOME": "/tmp", "CA": d.w.CA, "SSL_CERT_FILE": d.w.CA, "REQUESTS_CA_BUNDLE": d.w.CA, "NODE_EXTRA_CA_CERTS": d.w.CA,
		"GO_CLIENT": filepath.Join(d.bin, "goclient"), "PGCONNECT_TIMEOUT": "20",
	}
}

// recorded are the refusals of the sandbox that are in the audit log, as [sandbox.refusals] has them.
func (b box) recorded(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, record := range b.records(t) {
		if record.Type != audit.TypeEgress {
			continue
		}
		e := record.Egress
		if e.Destination == "" {
			all = append(all, fmt.Sprintf("names: %s %s: %s (rule %d)", e.Name, e.Query, e.Reason, e.Rule))
			continue
		}
		to := e.Name
		if to == "" {
			to = e.Destination
		}
		all = append(all, fmt.Sprintf("relay: %s %s: %s (rule %d)", e.Event, to, e.Reason, e.Rule))
	}
	return all
}

// records are those of the sandbox.
func (b box) records(t *testing.T) []audit.Record {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.state, "state", "audit", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []audit.Record
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var record audit.Record
			if !bytes.Contains(line, []byte(b.id)) || !bytes.HasSuffix(line, []byte("\n")) {
				continue // another's, or still being written
			}
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if record.Sandbox == b.id {
				all = append(all, record)
			}
		}
	}
	return all
}
