package main

import (
	"bytes"
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
	"time"

	"github.com/sandboxd/sandboxd/rego"
)

// facadeKey is the API key of the only owner.
const facadeKey = "bench-0123456789-0123456789-0123456789-0123456789"

// facade is a daemon as it is installed, and a client of OpenSandbox's protocol that keeps its connections, as the SDKs do.
type facade struct {
	daemon *exec.Cmd
	proc   string // its /proc/PID
	base   string
	client *http.Client
}

// facade starts one with its state on the disk, as a daemon has it, and the built-in policy, which accepts what this machine's cgroups lack: the clients ask for
// processor and memory always.
func (b *bench) facade(name string, flags ...string) (*facade, error) {
	dir := filepath.Join(b.dir, name)
	policy, keys := filepath.Join(dir, "policy"), filepath.Join(dir, "keys")
	if err := os.CopyFS(policy, rego.Bundle); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(policy, "data.json"))
	if err != nil {
		return nil, err
	}
	data = bytes.Replace(data, []byte(`"accept": []`), []byte(`"accept": ["cgroup.cpu", "cgroup.memory"]`), 1)
	if err := os.WriteFile(filepath.Join(policy, "data.json"), data, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(keys, []byte("bench "+facadeKey+"\n"), 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil { // somebody else may take the port now; then the daemon says so
		return nil, err
	}
	socket := filepath.Join(dir, "s", "sandboxd.sock")
	flags = append([]string{"serve", "--socket", socket, "--state", filepath.Join(dir, "state"), "--policy", policy, "--opensandbox-listen", address, "--opensandbox-keys", keys}, flags...)
	f := &facade{daemon: exec.Command(filepath.Join(b.dir, "sandboxd"), flags...), base: "http://" + address}
	f.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
	f.daemon.Stderr = os.Stderr
	if err := f.daemon.Start(); err != nil {
		return nil, err
	}
	f.proc = fmt.Sprintf("/proc/%d", f.daemon.Process.Pid)
	if err := ready(clientOf(socket)); err != nil {
		f.stop()
		return nil, err
	}
	time.Sleep(2 * time.Second) // the pool is filled, and what only the start has used is given back
	return f, nil
}

func (f *facade) stop() {
	_ = f.daemon.Process.Signal(os.Interrupt)
	_ = f.daemon.Wait()
	f.client.CloseIdleConnections()
}

// ask sends a request that must be answered with that status, and gives the body.
func (f *facade) ask(method, url, header, token string, body io.Reader, kind string, status int) ([]byte, error) {
	response, err := f.open(method, url, header, token, body, kind, status)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// open is ask without reading the body.
func (f *facade) open(method, url, header, token string, body io.Reader, kind string, status int) (*http.Response, error) {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set(header, token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	response, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != status {
		text, _ := io.ReadAll(response.Body)
		return nil, errorOf(response, text)
	}
	return response, nil
}

func errorOf(response *http.Response, text []byte) error {
	return fmt.Errorf("%s %s: status %d: %.500s", response.Request.Method, response.Request.URL.Path, response.StatusCode, text)
}

// remote is a sandbox as a client sees it.
type remote struct {
	f                *facade
	id, execd, token string
}

const (
	keyHeader   = "OPEN-SANDBOX-API-KEY"
	execdHeader = "X-EXECD-ACCESS-TOKEN"
	jsonKind    = "application/json"
)

// create makes a sandbox as the Python SDK does: create, both endpoints, a ping.
func (f *facade) create() (*remote, error) {
	var made, at struct {
		ID       string            `json:"id"`
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}
	const body = `{"image":{"uri":"host"},"entrypoint":["tail","-f","/dev/null"],"timeout":3600,"resourceLimits":{"cpu":"1","memory":"2Gi"},"networkPolicy":{"defaultAction":"deny"}}`
	data, err := f.ask("POST", f.base+"/v1/sandboxes", keyHeader, facadeKey, strings.NewReader(body), jsonKind, http.StatusAccepted)
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	if err != nil {
		return nil, err
	}
	for _, port := range []string{"18080", "44772"} {
		data, err := f.ask("GET", f.base+"/v1/sandboxes/"+made.ID+"/endpoints/"+port, keyHeader, facadeKey, nil, "", http.StatusOK)
		if err == nil {
			err = json.Unmarshal(data, &at)
		}
		if err != nil {
			return nil, err
		}
	}
	r := &remote{f, made.ID, "http://" + at.Endpoint, at.Headers[execdHeader]}
	_, err = f.ask("GET", r.execd+"/ping", execdHeader, r.token, nil, "", http.StatusOK)
	return r, err
}

func (r *remote) delete() error {
	_, err := r.f.ask("DELETE", r.f.base+"/v1/sandboxes/"+r.id, keyHeader, facadeKey, nil, "", http.StatusNoContent)
	return err
}

// run runs a command to the end of its stream, and gives what it wrote to stdout. It must succeed.
func (r *remote) run(command string) (string, error) {
	body, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return "", err
	}
	data, err := r.f.ask("POST", r.execd+"/command", execdHeader, r.token, bytes.NewReader(body), jsonKind, http.StatusOK)
	if err != nil {
		return "", err
	}
	var stdout strings.Builder
	ended := ""
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n\n"), "\n\n") {
		var event struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal([]byte(frame), &event); err != nil {
			return "", fmt.Errorf("%q: %w", frame, err)
		}
		if ended = event.Type; event.Type == "stdout" {
			stdout.WriteString(event.Text)
		}
	}
	if ended != "execution_complete" {
		return "", fmt.Errorf("%s: %s", command, data)
	}
	return stdout.String(), nil
}

func (r *remote) nothing() error {
	_, err := r.run("true")
	return err
}

// bareShell is what a command is compared with.
func bareShell() error { return exec.Command("bash", "-c", "true").Run() }

// opensandbox are the rows of the façade, over HTTP, each held against what the reference publishes.
func opensandbox(quick bool) func(*bench) error {
	return func(b *bench) error {
		f, err := b.facade("facade", "--work-bytes", "1280MiB")
		if err != nil {
			return err
		}
		defer f.stop()
		for _, rows := range []func(*bench, *facade, bool) error{commandRows, codeRows, createRows, crowdRows, contentRows} {
			if err := rows(b, f, quick); err != nil {
				return err
			}
		}
		f.stop()
		return idleRows(b, quick)
	}
}

// commandRows is the time of one command, from the request to the end of its stream.
func commandRows(b *bench, f *facade, _ bool) error {
	box, err := f.create()
	if err != nil {
		return err
	}
	kinds := []kind{{"bare", bareShell}, {"command", box.nothing}}
	if _, _, err := interleaved(1, 20, kinds); err != nil { // connection, worker, caches
		return err
	}
	times, _, err := interleaved(1, b.rounds, kinds)
	if err != nil {
		return err
	}
	b.add("OpenSandbox: command `true`, from the request to the end of its stream, record on disk (`bash -c true` started bare), p50", "≤ 6 ms; reference 200–1,000 ms",
		fmt.Sprintf("%s (%s)", short(times["command"].p50()), short(times["bare"].p50())), met(float64(times["command"].p50()), 6e6))
	b.add("OpenSandbox: the same, p99", "–", fmt.Sprintf("%s (%s)", short(times["command"].p99()), short(times["bare"].p99())), "–")
	return box.delete()
}

// createRows is the time from a create to the end of the first command, as the Python SDK goes about it: create, two endpoints, ping, command. One follows the
// other, so that the pool is filled beside them or not at all.
func createRows(b *bench, f *facade, _ bool) error {
	var whole, made sample
	for range max(b.rounds/8, 10) {
		begin := time.Now()
		box, err := f.create()
		if err != nil {
			return err
		}
		made = append(made, time.Since(begin))
		if err := box.nothing(); err != nil {
			return err
		}
		whole = append(whole, time.Since(begin))
		if err := box.delete(); err != nil {
			return err
		}
	}
	b.add("OpenSandbox: create (with both endpoints and a ping) to the end of the first command, one sandbox after the other, p50", "≤ 50 ms",
		fmt.Sprintf("%s, of which create %s", short(whole.p50()), short(made.p50())), met(float64(whole.p50()), 50e6))
	b.add("OpenSandbox: the same, p99", "–", short(whole.p99()), "–")
	return nil
}

// crowd is how many commands run beside each other.
const crowdCommands = 300

// crowdRows: many commands at once in one sandbox, each of which must give its own answer.
func crowdRows(b *bench, f *facade, _ bool) error {
	box, err := f.create()
	if err != nil {
		return err
	}
	before, err := statusNumber(f.proc, "RssAnon:")
	if err != nil {
		return err
	}
	stop, most := watch(f.proc)
	var mu sync.Mutex
	var wait sync.WaitGroup
	var times sample
	var failed error
	begin := time.Now()
	for i := range crowdCommands {
		wait.Go(func() {
			want := fmt.Sprint("number ", i)
			var got string
			took, err := timed(func() (err error) { got, err = box.run("echo " + want); return err })
			if err == nil && got != want {
				err = fmt.Errorf("command %d wrote %q", i, got)
			}
			mu.Lock()
			defer mu.Unlock()
			if times = append(times, took); err != nil {
				failed = err
			}
		})
	}
	wait.Wait()
	all := time.Since(begin)
	close(stop)
	grown := <-most - before<<10
	if failed != nil {
		return failed
	}
	b.add(fmt.Sprintf("OpenSandbox: %d commands at once in one sandbox, each with its own answer: p50, p99, all; growth of the daemon's own memory", crowdCommands), "all answer",
		fmt.Sprintf("%s, %s, %s (%.0f/s); + %.1f MiB", short(times.p50()), short(times.p99()), short(all), crowdCommands/all.Seconds(), float64(grown)/(1<<20)), "yes")
	return box.delete()
}
