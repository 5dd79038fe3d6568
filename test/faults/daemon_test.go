package faults

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// binaries builds sandboxd and its launcher, once for each tag, and gives their directory.
func binaries(t testing.TB, tag string) string {
	t.Helper()
	built, _ := builds.LoadOrStore(tag, sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(scratch, "bin")
		if err != nil {
			return "", err
		}
		build := exec.Command("go", "build", "-tags", tag, "-o", dir, "../../cmd/sandboxd", "../../cmd/sandboxd-runner")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return dir, os.Chmod(dir, 0o755)
	}))
	dir, err := built.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var (
	builds  sync.Map
	scratch string // has the binaries of this run
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == visitor {
		visited(os.Args[2:])
	}
	var err error
	if scratch, err = os.MkdirTemp("", "faults"); err == nil {
		err = os.Chmod(scratch, 0o755) // other users start the binaries too
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they wait for clocks and disks, not for processors
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// needRoot skips what an ordinary user can't do to a daemon. Ordinary users have their own tests of the launcher's end, in runner.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it starts daemons with ids of their own and takes things away from them")
	}
}

// stateDir is a daemon's own directory, on a short path: its sockets lie beside it.
func stateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "state")
}

// daemon is a running one.
type daemon struct {
	*exec.Cmd
	socket string
	state  string
	// marker is in the command line of all that runs for its tests, so that what is left of it can be found.
	marker string
	log    *output
	// runner is the inode of the launcher's sealed copy.
	runner uint64
	ended  chan struct{}
	began  time.Time
	client *http.Client
}

// output is what a daemon logs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var daemons atomic.Int64

// killed are the daemons that have ended, with the time of it.
var killed ends

type ends struct{ sync.Map }

func (e *ends) add(pid uint64) { e.Store(pid, time.Now()) }

// before says whether a daemon had ended by then.
func (e *ends) before(pid uint64, then time.Time) bool {
	at, there := e.Load(pid)
	return there && at.(time.Time).Before(then)
}

// start runs a daemon until its socket answers. Arguments with a "=" before any "-" are of its environment, others flags.
func start(t testing.TB, bin, state string, arguments ...string) *daemon {
	t.Helper()
	d := prepare(t, bin, state, arguments...)
	d.run(t)
	return d
}

func prepare(t testing.TB, bin, state string, arguments ...string) *daemon {
	t.Helper()
	number := daemons.Add(1)
	d := &daemon{
		socket: filepath.Join(filepath.Dir(state), "run", fmt.Sprintf("%d", number)), state: state,
		marker: fmt.Sprintf("faults-%d-%d-", os.Getpid(), number), log: &output{}, ended: make(chan struct{}),
	}
	// Without the proof that it makes at its start, in a sandbox of its own: the faults are meant for what the test asks of it.
	d.Cmd = exec.Command(filepath.Join(bin, "sandboxd"), "serve", "--socket", d.socket, "--state", state, "--probe-interval", "0")
	d.Cmd.Env = os.Environ()
	for _, argument := range arguments {
		if strings.HasPrefix(argument, "-") {
			d.Args = append(d.Args, strings.Fields(argument)...)
		} else {
			d.Cmd.Env = append(d.Cmd.Env, argument)
		}
	}
	d.Cmd.Stdout, d.Cmd.Stderr = d.log, d.log
	d.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket)
	}}}
	return d
}

// begin starts it, and waits for nothing.
func (d *daemon) begin(t testing.TB) {
	t.Helper()
	d.began = time.Now()
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // tests look at ProcessState
		_ = d.Wait()
		killed.add(uint64(d.Process.Pid))
		close(d.ended)
	}()
	t.Cleanup(func() { _ = d.Process.Kill(); <-d.ended })
}

// run starts it and waits until it is ready.
func (d *daemon) run(t testing.TB) {
	t.Helper()
	d.begin(t)
	for range 1000 {
		if response, err := d.client.Get("http://sandboxd/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				d.findRunner(t)
				return
			}
		}
		select {
		case <-d.ended:
			t.Fatalf("the daemon ended at its start: %v\n%s", d.ProcessState, d.log)
		case <-time.After(20 * time.Millisecond): // polls what the test is about
		}
	}
	t.Fatalf("the daemon wasn't ready in 20 s:\n%s", d.log)
}

// reply is what of an answer these tests look at: a reply or an error.
type reply struct {
	status    int
	err       error
	took      time.Duration
	ID        string  `json:"id"`
	Outcome   string  `json:"outcome"`
	Stdout    string  `json:"stdout"`
	TreeEmpty bool    `json:"treeEmpty"`
	Duration  float64 `json:"durationSeconds"`
	Message   string  `json:"message"`
	Code      string  `json:"code"`
}

// exec asks for one command; more are further members of the body, with their comma.
func (d *daemon) exec(t testing.TB, command, more string) reply {
	t.Helper()
	return d.post(t.Context(), "/v1/exec", `{"command":{`+command+`}`+more+`}`)
}

// post answers an error when the daemon went away.
func (d *daemon) post(ctx context.Context, path, body string) (got reply) {
	began := time.Now()
	defer func() { got.took = time.Since(began) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandboxd"+path, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	got.status = response.StatusCode
	data, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	got.err = err
	return got
}

// hammer sends one command again and again until the daemon is gone.
func (d *daemon) hammer(ctx context.Context, argv []string) {
	quoted, err := json.Marshal(argv)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		if got := d.post(ctx, "/v1/exec", `{"command":{"argv":`+string(quoted)+`}}`); got.err != nil {
			return
		}
	}
}

// get gives the body of a path.
func (d *daemon) get(t testing.TB, path string) (int, string) {
	t.Helper()
	response, err := d.client.Get("http://sandboxd" + path)
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, d.log)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// metric is the value of a line of /metrics.
func (d *daemon) metric(t testing.TB, name string) float64 {
	t.Helper()
	_, text := d.get(t, "/metrics")
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// makeSandbox gives the id of a new sandbox that is kept.
func (d *daemon) makeSandbox(t testing.TB) string {
	t.Helper()
	got := d.post(t.Context(), "/v1/sandboxes", "{}")
	if got.err != nil || got.status != http.StatusCreated || got.ID == "" {
		t.Fatalf("sandbox: %+v\n%s", got, d.log)
	}
	return got.ID
}

func (d *daemon) deleteSandbox(t testing.TB, id string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://sandboxd/v1/sandboxes/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := d.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("delete: %s", response.Status)
	}
}

// ordinaryUser is somebody who has nothing else on this machine. Ordinary users see their processes counted by the kernel; root doesn't.
func ordinaryUser() uint32 { return uint32(61_300 + daemons.Add(1)%1000) }

// ordinary starts a daemon of an ordinary user.
func ordinary(t testing.TB, uid uint32, bin, state string, arguments ...string) *daemon {
	t.Helper()
	if err := os.Chown(filepath.Dir(state), int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	d := prepare(t, bin, state, append(arguments, "--allow 0", "HOME=/")...)
	d.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	d.run(t)
	return d
}

func (d *daemon) kill(t testing.TB) {
	t.Helper()
	if err := d.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	d.awaitEnd(t)
}

func (d *daemon) awaitEnd(t testing.TB) {
	t.Helper()
	select {
	case <-d.ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("the daemon lives on\n%s", d.log)
	}
}

// stop ends it gracefully, and nothing is left.
func (d *daemon) stop(t testing.TB) {
	t.Helper()
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	d.awaitEnd(t)
	if !d.ProcessState.Success() {
		t.Errorf("graceful stop: %v\n%s", d.ProcessState, d.log)
	}
	d.nothingLeft(t)
	d.verify(t)
}

// verify asks the verifier.
func (d *daemon) verify(t testing.TB) audit.Report {
	t.Helper()
	report, err := audit.Verify(filepath.Join(d.state, "audit"))
	if err != nil || !report.OK() {
		t.Errorf("the log doesn't verify: %+v, %v", report, err)
	}
	return report
}

// nothingLeft gives the kernel a while to finish what it has begun, then no process of this daemon's execs may be there.
func (d *daemon) nothingLeft(t testing.TB) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { // polls what the test is about
		if left = d.left(); len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %v\n%s", left, d.log)
}

// left are the processes that carry the marker, that execute this daemon's launcher, which is a file of its own: the daemon's sealed copy, or that
// are in a group of this daemon's, where it has one.
func (d *daemon) left() []string {
	var found []string
	group := fmt.Sprintf("/sandboxd-%d-", d.Process.Pid)
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		cmdline, _ := os.ReadFile(entry + "/cmdline")
		groups, _ := os.ReadFile(entry + "/cgroup")
		if strings.Contains(string(cmdline), d.marker) || strings.Contains(string(groups), group) || d.runner != 0 && inode(entry+"/exe") == d.runner {
			found = append(found, entry+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// findRunner notes which file the daemon's launchers execute.
func (d *daemon) findRunner(t testing.TB) {
	t.Helper()
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.Process.Pid))
	for _, descriptor := range descriptors {
		if link, _ := os.Readlink(descriptor); strings.HasPrefix(link, "/memfd:sandboxd-runner") {
			d.runner = inode(descriptor)
			return
		}
	}
	t.Fatal("the daemon has no copy of its launcher")
}

func inode(path string) uint64 {
	var stat syscall.Stat_t
	if syscall.Stat(path, &stat) != nil {
		return 0
	}
	return stat.Ino
}
