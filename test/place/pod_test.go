package place

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
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
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// The users of a pod. No account and no range of ours has them.
const (
	runnerUID = 61_301
	daemonUID = 61_302
	otherUID  = 61_303
)

// programs builds sandboxd and its launcher once.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "bin")
	build := exec.Command("go", "build", "-o", dir+"/", "../../cmd/sandboxd", "../../cmd/sandboxd-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, os.Chmod(dir, 0o755)
})

// scratch is the directory of a run. It isn't in /tmp, which the runner has one of its own of.
var scratch string

// hostNetwork names the network namespace that the tests start in. It is read before any thread enters another: the main thread,
// which /proc/self stands for, can be one that does, and isn't ended with its goroutine as others are.
var hostNetwork string

func TestMain(m *testing.M) {
	var err error
	if hostNetwork, err = os.Readlink("/proc/self/ns/net"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if scratch, err = os.MkdirTemp("/var/tmp", "sandboxd-place"); err == nil {
		err = errors.Join(os.Chmod(scratch, 0o755), os.Mkdir(filepath.Join(scratch, "bin"), 0o755))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// pod is what daemon and launcher share.
type pod struct {
	t        *testing.T
	dir      string
	holder   *exec.Cmd // of the network namespace
	client   *http.Client
	daemon   *process
	launcher *process
}

// process is one that runs until it ends or the test does.
type process struct {
	*exec.Cmd
	out   *lockedBuffer
	ended chan struct{}
}

// lockedBuffer has no method of bytes.Buffer's but these: io.Copy would find ReadFrom, which knows no lock.
type lockedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func begin(t *testing.T, argv ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(argv[0], argv[1:]...), out: &lockedBuffer{}, ended: make(chan struct{})}
	p.Env, p.Stdout, p.Stderr = []string{"PATH=" + os.Getenv("PATH")}, p.out, p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // how it ended, its test asks
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

// await fails unless something becomes so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(10 * time.Millisecond) { // it polls what the test is about
		if time.Now().After(deadline) {
			t.Fatal("in vain: ", what)
		}
	}
}

// newPod makes the network namespace. Nothing runs in it yet.
func newPod(t *testing.T) *pod {
	t.Helper()
	kerneltest.Require(t, kerneltest.Root)
	for _, tool := range []string{"ip", "nsenter", "unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp(scratch, "pod")
	if err != nil {
		t.Fatal(err)
	}
	p := &pod{t: t, dir: dir}
	for _, sub := range []string{"run", "state"} {
		err = errors.Join(err, os.Mkdir(p.path(sub), 0o755), os.Chown(p.path(sub), daemonUID, daemonUID))
	}
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	p.holder = holdNetwork(t)
	p.ip("link", "set", "lo", "up")
	p.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.path("run/api/sandboxd.sock"))
	}}}
	return p
}

// holdNetwork is a process that holds a network namespace of its own until the test ends.
func holdNetwork(t *testing.T) *exec.Cmd {
	t.Helper()
	holder := exec.Command("unshare", "-n", "cat")
	hold, err := holder.StdinPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		_ = holder.Wait()
	})
	await(t, "a network namespace", func() bool {
		network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid))
		return err == nil && network != hostNetwork
	})
	return holder
}

func (p *pod) path(name string) string { return filepath.Join(p.dir, name) }

// inside is a command in the pod's network namespace.
func (p *pod) inside(argv ...string) []string {
	return append([]string{"nsenter", "-n", "-t", strconv.Itoa(p.holder.Process.Pid), "--"}, argv...)
}

func (p *pod) ip(args ...string) {
	p.t.Helper()
	argv := p.inside(append([]string{"ip"}, args...)...)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		p.t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

// as is a command of a user who has the capabilities that are named, and no other.
func as(uid int, capabilities string, argv ...string) []string {
	id, bounding, ambient := strconv.Itoa(uid), "-all", "-all"
	if capabilities != "" {
		bounding, ambient = "-all,"+capabilities, capabilities
	}
	return append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps", bounding, "--ambient-caps", ambient, "--bounding-set", bounding,
		"--no-new-privs", "--"}, argv...)
}

// serve starts the daemon, which no launcher has connected to yet.
func (p *pod) serve(capabilities string, args ...string) {
	p.t.Helper()
	bin, err := programs()
	if err != nil {
		p.t.Fatal(err)
	}
	argv := append([]string{filepath.Join(bin, "sandboxd"), "serve", "--socket", p.path("run/api/sandboxd.sock"), "--allow", "0", "--state", p.path("state"),
		"--runner-socket", p.path("run/launcher/launcher.sock"), "--runner-uid", strconv.Itoa(runnerUID)}, args...)
	p.daemon = begin(p.t, p.inside(as(daemonUID, capabilities, argv...)...)...)
	await(p.t, "the daemon listens", func() bool {
		select {
		case <-p.daemon.ended:
			p.t.Fatal(p.daemon.out)
		default:
		}
		status, _ := p.get("/healthz")
		return status == http.StatusOK
	})
}

// container are the mounts of the runner: a /tmp and a /dev/shm of its own, and none of the daemon's files.
const container = `mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount -t tmpfs -o mode=755 tmpfs "$1" && shift && exec "$@"`

// connect starts a launcher as the entry process of a container.
func (p *pod) connect() *process {
	p.t.Helper()
	bin, err := programs()
	if err != nil {
		p.t.Fatal(err)
	}
	argv := as(runnerUID, "", filepath.Join(bin, "sandboxd-runner"), "connect", p.path("run/launcher/launcher.sock"), strconv.Itoa(daemonUID))
	p.launcher = begin(p.t, p.inside(append([]string{"unshare", "-m", "--propagation", "private", "sh", "-c", container, "sh", p.path("state")}, argv...)...)...)
	return p.launcher
}

// start starts both, and returns when requests are served.
func (p *pod) start(capabilities string, args ...string) {
	p.t.Helper()
	p.serve(capabilities, args...)
	p.connect()
	p.isReady()
}

func (p *pod) isReady() {
	p.t.Helper()
	var body string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("readyz: %s\ndaemon: %s\nlauncher: %s", body, p.daemon.out, p.launcher.out)
		}
	}()
	await(p.t, "ready", func() (ready bool) {
		var status int
		status, body = p.get("/readyz")
		return status == http.StatusOK
	})
}

// isUnready waits until the daemon has noticed that its launcher is gone.
func (p *pod) isUnready() {
	p.t.Helper()
	await(p.t, "not ready", func() bool { status, _ := p.get("/readyz"); return status == http.StatusServiceUnavailable })
}

func (p *pod) get(path string) (int, string) {
	return p.do(http.MethodGet, path, "")
}

// do asks the daemon; 0 is no answer.
func (p *pod) do(method, path, body string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, "http://sandboxd"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(data)
}

// reply is what the tests look at of an answer.
type reply struct {
	Outcome     string `json:"outcome"`
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	Message     string `json:"message"`
	Code        string `json:"code"`
	TreeEmpty   bool   `json:"treeEmpty"`
	ExitCode    *int   `json:"exitCode"`
	ReturnValue any    `json:"returnValue"`
	Reasons     []struct {
		Rule    string `json:"rule"`
		Message string `json:"message"`
	} `json:"reasons"`
	Verdict struct {
		Held     bool         `json:"held"`
		Tier     policy.Tier  `json:"tier"`
		Degraded []string     `json:"degraded"`
		Rows     []policy.Row `json:"rows"`
	} `json:"verdict"`
}

// post asks for something that is answered by a reply.
func (p *pod) post(path string, body any) (got reply) {
	p.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, text := p.do(http.MethodPost, path, string(data))
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		p.t.Fatalf("%v: %s\n%s", err, text, p.daemon.out)
	}
	return got
}

// exec runs a command.
func (p *pod) exec(argv ...string) reply {
	p.t.Helper()
	return p.post("/v1/exec?rows=true", map[string]any{"command": map[string]any{"argv": argv}})
}

// ran is the output of a command that must succeed.
func (p *pod) ran(argv ...string) string {
	p.t.Helper()
	got := p.exec(argv...)
	if got.Outcome != "ok" || !got.Verdict.Held || !got.TreeEmpty {
		p.t.Fatalf("%v: %+v\n%s", argv, got, p.daemon.out)
	}
	return got.Stdout
}

// ofRunner are the processes of the runner's uid.
func ofRunner(t *testing.T) []int {
	t.Helper()
	pids, err := enforcer.OfUser(runnerUID)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func isEmpty(t *testing.T) {
	t.Helper()
	await(t, "no process of the runner's is left", func() bool { return len(ofRunner(t)) == 0 })
}

func (p *process) kill() {
	_ = p.Process.Signal(syscall.SIGKILL)
	<-p.ended
}

// settings is the default policy with some settings changed.
func (p *pod) settings(change func(settings map[string]any)) string {
	p.t.Helper()
	dir := p.path("state/policy")
	if err := os.CopyFS(dir, rego.Bundle); err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(dir, "data.json")
	text, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		p.t.Fatal(err)
	}
	change(data["settings"].(map[string]any))
	if text, err = json.Marshal(data); err != nil {
		p.t.Fatal(err)
	}
	// The cases that come with it say no to what is listed here, and a policy that its cases contradict isn't taken.
	if err := errors.Join(os.WriteFile(file, text, 0o644), os.RemoveAll(filepath.Join(dir, "corpus", "network.json"))); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// say passes on what the daemon has written, where a test fails.
func (p *pod) say() {
	if p.t.Failed() && p.daemon != nil {
		p.t.Logf("daemon: %s", p.daemon.out)
	}
}

// recorded says whether the log has a record of a type with a text in it.
func (p *pod) recorded(kind, text string) bool {
	p.t.Helper()
	files, err := filepath.Glob(p.path("state/audit/audit-*.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, `"type":"`+kind+`"`) && strings.Contains(line, text) {
				return true
			}
		}
	}
	return false
}

// decode asks for something that is answered with a value.
func (p *pod) decode(method, path, body string, into any) {
	p.t.Helper()
	status, text := p.do(method, path, body)
	if err := json.Unmarshal([]byte(text), into); err != nil || status >= 300 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}
