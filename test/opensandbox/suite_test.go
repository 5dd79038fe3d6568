package opensandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/test/kerneltest"
	"github.com/sandboxd/sandboxd/test/network"
)

func TestMain(m *testing.M) { os.Exit(network.Main(m)) }

// The hosts that the suite connects to, of those of the test network: one that it allows, one that it never does, by name, by address and by IPv6.
var (
	allowedHost = network.Elsewhere
	deniedHost  = network.Public
	deniedName  = "www.example.com"
	deniedHost6 = network.Both6
	deniedUDP   = netip.AddrPortFrom(deniedHost, 9053)
)

// TestSuiteOpenSandbox is the suite of OpenSandbox's SDK.
func TestSuiteOpenSandbox(t *testing.T) {
	suite, python := material(t, "opensandbox"), os.Getenv("SANDBOXD_SUITE_PYTHON")
	d := start(t, openPolicy(t))
	args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "90", "-rA", "--tb=short"}
	d.pytest(t, suite, python, args, map[string]string{
		"SANDBOXD_OPENSANDBOX_URL":     "http://" + d.address,
		"SANDBOXD_OPENSANDBOX_API_KEY": d.key,
		"SANDBOXD_TEST_ALLOWED_HOST":   allowedHost.String(), "SANDBOXD_TEST_ALLOWED_PORT": "80",
		"SANDBOXD_TEST_DENIED_HOST": deniedHost.String(), "SANDBOXD_TEST_DENIED_PORT": "80",
		"SANDBOXD_TEST_DENIED_NAME": deniedName, "SANDBOXD_TEST_DENIED_HOST6": deniedHost6.String(),
		"SANDBOXD_TEST_DENIED_UDP_PORT": fmt.Sprint(deniedUDP.Port()),
	})
	d.keepsSecrets(t)
}

// TestSuiteAirflow is that of Airflow's provider.
func TestSuiteAirflow(t *testing.T) {
	suite, python := material(t, "airflow"), os.Getenv("SANDBOXD_SUITE_AIRFLOW")
	if python == "" {
		t.Skip("SANDBOXD_SUITE_AIRFLOW names no interpreter that has Airflow: opensandbox.sh was told to leave it out")
	}
	d := start(t, openPolicy(t))
	host, port, _ := net.SplitHostPort(d.address)
	connection, err := json.Marshal(map[string]any{"conn_type": "generic", "host": host, "port": port, "schema": "http", "password": d.key})
	if err != nil {
		t.Fatal(err)
	}
	d.pytest(t, suite, python, []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "120", "-rA", "--tb=short"}, map[string]string{
		"AIRFLOW_HOME": t.TempDir(), "AIRFLOW_CONN_OPENSANDBOX_DEFAULT": string(connection),
	})
	d.keepsSecrets(t)
}

// TestSuiteCode is ours, of the code-interpreter SDK, with packages that the sandboxes are shown.
func TestSuiteCode(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	python, packages := os.Getenv("SANDBOXD_SUITE_CODE"), os.Getenv("SANDBOXD_SUITE_PACKAGES")
	if python == "" {
		t.Skip("SANDBOXD_SUITE_CODE names no interpreter that has the SDK; test/opensandbox.sh does")
	}
	suite, err := filepath.Abs("code")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, openPolicy(t), "--show", packages)
	d.pytest(t, suite, python, []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "90", "-rA", "--tb=short"}, map[string]string{
		"SANDBOXD_OPENSANDBOX_ADDRESS": d.address, "SANDBOXD_OPENSANDBOX_API_KEY": d.key, "SANDBOXD_TEST_PACKAGES": packages,
	})
	d.keepsSecrets(t)
}

// material is where a suite lies.
func material(t *testing.T, name string) string {
	t.Helper()
	kerneltest.Require(t, kerneltest.Root)
	if os.Getenv("SANDBOXD_SUITE") == "" {
		t.Skip("SANDBOXD_SUITE names no conformance material; test/opensandbox.sh does")
	}
	return filepath.Join(os.Getenv("SANDBOXD_SUITE"), name)
}

// daemon is a daemon that runs.
type daemon struct {
	address, key, state string
	log                 *bytes.Buffer
}

// start starts one in the test network, which has the hosts, by its own name server.
func start(t *testing.T, policy string, flags ...string) *daemon {
	t.Helper()
	w := network.New(t)
	answerDatagrams(t)
	dir := t.TempDir()
	d := &daemon{key: secret(), state: filepath.Join(dir, "state"), log: &bytes.Buffer{}}
	if err := os.WriteFile(filepath.Join(dir, "keys"), []byte("suite "+d.key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(filepath.Join(os.Getenv("SANDBOXD_BIN"), "sandboxd"), append([]string{"serve", "--socket", filepath.Join(dir, "run", "sandboxd.sock"),
		"--state", d.state, "--policy", policy, "--claim-file", filepath.Join(dir, "ids"), "--first-uid", "750000", "--uids", "4096",
		"--resolver", w.Resolver.String(), "--opensandbox-listen", "127.0.0.1:0", "--opensandbox-keys", filepath.Join(dir, "keys")}, flags...)...)
	serve.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	address, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		d.read(out, address)
	}()
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt) // Wait says how it ended
		<-ended
		if err := serve.Wait(); err != nil {
			t.Errorf("daemon: %v\n%s", err, d.log)
		}
	})
	select {
	case d.address = <-address:
	case <-ended:
		t.Fatalf("the daemon doesn't start:\n%s", d.log)
	}
	return d
}

var listening = regexp.MustCompile(`address=([0-9.:]+) protocol=OpenSandbox`)

// read keeps the log, and finds the address in it.
func (d *daemon) read(log io.Reader, address chan<- string) {
	once := sync.Once{}
	buffer := make([]byte, 4096)
	for {
		n, err := log.Read(buffer)
		d.log.Write(buffer[:n])
		if found := listening.FindSubmatch(d.log.Bytes()); found != nil {
			once.Do(func() { address <- string(found[1]) })
		}
		if err != nil {
			return
		}
	}
}

func secret() string {
	var raw [24]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// openPolicy is the built-in policy with what the suite asks for: a sandbox may be open, the private and reserved targets that it names may be named, and
// what this machine's groups lack is accepted.
func openPolicy(t *testing.T) string {
	t.Helper()
	return builtIn(t, [][2]string{
		{`"accept": []`, `"accept": ["cgroup.cpu", "cgroup.memory"]`},
		{`"default_actions": ["deny"]`, `"default_actions": ["allow", "deny"]`},
		{`"datagrams": false`, `"datagrams": true`},
		{`"targets": []`, `"targets": [{"target": "10.0.0.0/8", "ports": []}, {"target": "192.0.2.0/24", "ports": []}]`},
	})
}

// builtIn is the built-in policy with changes to its data. The cases that come with it and say otherwise are taken out with it.
func builtIn(t *testing.T, changes [][2]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(dir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, change := range changes {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("data.json has no %s", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"network.json", "together.json"} {
		if err := os.Remove(filepath.Join(dir, "corpus", name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// answerDatagrams has the denied host answer any datagram.
func answerDatagrams(t *testing.T) {
	t.Helper()
	socket, err := net.ListenPacket("udp", deniedUDP.String())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { socket.Close(); <-done })
	go func() {
		defer close(done)
		buffer := make([]byte, 2048)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(buffer[:n], from) // who asks sees whether it came
		}
	}()
}

var (
	passed  = regexp.MustCompile(`(?m)^(\d+) passed`)
	verdict = regexp.MustCompile(`(?m)^=*\s*(\d+ (?:passed|failed|error).*)$`)
)

// pytest runs a suite, all of whose tests must pass: none may be skipped.
func (d *daemon) pytest(t *testing.T, suite, python string, args []string, env map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, python, args...)
	run.Dir = suite
	run.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OPENSANDBOX_DISABLE_METRICS=0")
	for name, value := range env {
		run.Env = append(run.Env, name+"="+value)
	}
	out, err := run.CombinedOutput()
	said := string(out)
	for _, line := range verdict.FindAllStringSubmatch(said, -1) {
		t.Log(line[1])
	}
	if err != nil || strings.Contains(said, " skipped") || !passed.MatchString(said) {
		t.Errorf("pytest: %v\n%s\n\ndaemon:\n%s", err, said, tail(d.log.String()))
	}
}

func tail(text string) string {
	const most = 8 << 10
	return text[max(0, len(text)-most):]
}

// keepsSecrets says whether the key is where it mustn't be.
func (d *daemon) keepsSecrets(t *testing.T) {
	t.Helper()
	if strings.Contains(d.log.String(), d.key) {
		t.Error("the key is in the daemon's log")
	}
	found := exec.Command("grep", "-rqF", d.key, d.state)
	if found.Run() == nil {
		t.Error("the key is in the daemon's state")
	}
}
