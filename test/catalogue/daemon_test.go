package catalogue

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/v2"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// daemon is sandboxd serve, as it is installed: a process of its own, met through its socket, with its log on a disk.
type daemon struct {
	client  http.Client
	process *exec.Cmd
	socket  string
	log     string
	stderr  *bytes.Buffer

	mu      sync.Mutex // guards what follows
	offsets map[string]int64
	records map[string][]audit.Record
}

// startDaemon starts it with these flags more, and waits until it is ready. canary is in its environment and must never be in a sandbox's.
func startDaemon(t *testing.T, bin string, flags ...string) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{
		socket: filepath.Join(dir, "run", "s"), log: filepath.Join(dir, "state", "audit"), stderr: new(bytes.Buffer),
		offsets: map[string]int64{}, records: map[string][]audit.Record{},
	}
	d.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket)
	}}
	d.process = exec.Command(filepath.Join(bin, "sandboxd"), append([]string{"serve", "--socket", d.socket, "--state", filepath.Join(dir, "state"),
		"--value-bytes", "2MiB"}, flags...)...)
	d.process.Stdout, d.process.Stderr = d.stderr, d.stderr
	d.process.Env = append(os.Environ(), "CANARY="+canary, "SANDBOXD_SABOTAGE="+sabotaged) // which only the build of that name knows
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.stop(t) })
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // emulated, it takes long to prove a bundle; polls what the supervisor of a daemon polls
		if response, err := d.client.Get("http://sandboxd/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return d
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon isn't ready:\n%s", d.stderr)
		}
	}
}

const (
	canary = "canary-5ae1f04c"
	// sabotaged is the step that the build for mutations leaves out.
	sabotaged = "rlimit.nofile"
)

// stop ends it gracefully; its log must verify.
func (d *daemon) stop(t *testing.T) {
	d.client.CloseIdleConnections()
	_ = d.process.Process.Signal(syscall.SIGTERM)
	if err := d.process.Wait(); err != nil {
		t.Errorf("the daemon's end: %v\n%s", err, d.stderr)
	}
	if report, err := audit.Verify(d.log); err != nil || !report.OK() {
		t.Errorf("the log doesn't verify: %+v, %v", report, err)
	}
	if strings.Contains(d.stderr.String(), "please report") {
		t.Errorf("the daemon found a mistake of its own:\n%s", d.stderr)
	}
}

// do sends a request and gives status and body.
func (d *daemon) do(ctx context.Context, method, path, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://sandboxd"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := d.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, data, err
}

// status is the daemon's own account.
func (d *daemon) status(t *testing.T) execd.Status {
	t.Helper()
	var status execd.Status
	if code, data, err := d.do(t.Context(), "GET", "/v1/status", ""); err != nil || code != 200 || json.Unmarshal(data, &status) != nil {
		t.Fatalf("status: %d %s %v", code, data, err)
	}
	return status
}

// recorded waits for the records of an exec up to one that has its end.
func (d *daemon) recorded(t *testing.T, id string) []audit.Record {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the last record isn't waited for by the reply
		d.read(t)
		d.mu.Lock()
		list := d.records[id]
		d.mu.Unlock()
		if len(list) > 0 && list[len(list)-1].Ending != nil {
			return list
		}
		if time.Now().After(deadline) {
			t.Errorf("no record of the end of %s: %+v", id, list)
			return list
		}
	}
}

// read takes in what has come to the log since.
func (d *daemon) read(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(d.log, "audit-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(d.offsets[path], io.SeekStart); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(file)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break // half a line comes whole the next time
			}
			d.offsets[path] += int64(len(line))
			var r audit.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Errorf("%s: %s: %v", path, line, err)
			}
			if bytes.Contains(line, []byte(canary)) {
				t.Errorf("the daemon's environment is in its log: %s", line)
			}
			if r.Exec != "" {
				d.records[r.Exec] = append(d.records[r.Exec], r)
			}
		}
		file.Close()
	}
}
