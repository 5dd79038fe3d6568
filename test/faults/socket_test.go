package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// request is one as it goes over the wire; \n stands for a line's end.
func request(body string) string {
	return fmt.Sprintf(`POST /v1/exec HTTP/1.1\nHost: sandboxd\nConnection: close\nContent-Type: application/json\nContent-Length: %d\n\n%s`, len(body), body)
}

const sayRan = `{"command":{"argv":["echo","ran"]}}`

// records gives the lines of the log.
func (d *daemon) records(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.state, "audit", "audit-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return string(all)
}

// TestWrongUser: a user who isn't allowed is closed before a byte of his is read, and recorded by the kernel's word; one who is allowed is named.
func TestWrongUser(t *testing.T) {
	needRoot(t)
	t.Parallel()
	const friend, stranger = 61_201, 61_202
	state := stateDir(t)
	if err := os.Chmod(filepath.Dir(state), 0o711); err != nil {
		t.Fatal(err)
	}
	d := start(t, binaries(t, ""), state, "--allow 0", fmt.Sprintf("--allow %d", friend))
	if got := visit(t, friend, "ask", d.socket, request(sayRan)); !strings.Contains(got, `"stdout":"ran`) {
		t.Errorf("the friend got %q", got)
	}
	if got := visit(t, stranger, "ask", d.socket, request(sayRan)); !strings.HasPrefix(got, "closed") {
		t.Errorf("the stranger got %q", got)
	}
	d.stop(t)
	if log := d.records(t); !strings.Contains(log, fmt.Sprintf(`"type":"refused","caller":{"uid":%d,`, stranger)) ||
		!strings.Contains(log, fmt.Sprintf(`"caller":{"uid":%d,`, friend)) {
		t.Errorf("the log doesn't name friend and stranger:\n%s", log)
	}
}

// TestSocketPaths: where somebody has prepared the place of the socket, the daemon doesn't start, and says what is wrong.
func TestSocketPaths(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "")
	for name, test := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"symlinked directory": {func(dir string) error { return os.Symlink("/tmp", dir) }, "not a directory"},
		"another's directory": {func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chown(dir, 61_203, 61_203)
		}, "belongs to uid 61203"},
		"open directory": {func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chmod(dir, 0o777)
		}, "lets others write"},
		"symlinked socket": {func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Symlink("/run/elsewhere", filepath.Join(dir, "s"))
		}, "file of another kind"},
		"another's socket": {func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			if err := unix.Mknod(filepath.Join(dir, "s"), unix.S_IFSOCK|0o600, 0); err != nil {
				return err
			}
			return os.Chown(filepath.Join(dir, "s"), 61_203, 61_203)
		}, "socket of uid 61203"},
	} {
		state := stateDir(t)
		d := prepare(t, bin, state)
		d.socket = filepath.Join(filepath.Dir(state), "p", "s")
		d.Args[3] = d.socket
		if err := test.prepare(filepath.Dir(d.socket)); err != nil {
			t.Fatal(err)
		}
		if err := d.Run(); err == nil || !strings.Contains(d.log.String(), test.want) {
			t.Errorf("%s: %v, want a refusal with %q\n%s", name, err, test.want, d.log)
		}
		d.nothingLeft(t)
		d.verify(t)
	}
}

// TestPassedDescriptors: a descriptor that comes with a request, in its header, its body, or while it runs, ends the connection and what runs on
// it, is recorded, and is never one of the daemon's.
func TestPassedDescriptors(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t), "--pool 0")
	d.exec(t, `"argv":["true"]`, "")
	d.settles(t)
	before := d.descriptors(t)
	sleep := `{"command":{"argv":["sh","-c","sleep 60 # ` + d.marker + `"]}}`
	whole := strings.ReplaceAll(request(sleep), `\n`, "\r\n")
	header, body, _ := strings.Cut(whole, "\r\n\r\n")
	for name, pieces := range map[string][2]string{
		"header":   {"", whole},
		"body":     {header + "\r\n\r\n", body},
		"meantime": {whole, "x"},
	} {
		conn, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, pieces[0]); err != nil {
			t.Fatal(err)
		}
		if name == "meantime" {
			d.awaitRunning(t)
		}
		null, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte(pieces[1]), unix.UnixRights(int(null.Fd()), int(null.Fd())), nil); err != nil {
			t.Fatal(err)
		}
		null.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		data, err := io.ReadAll(conn)
		if err != nil && !strings.Contains(err.Error(), "connection reset") || strings.Contains(string(data), "200 OK") && name != "meantime" {
			t.Errorf("%s: %q, %v; want a connection that is closed", name, data, err)
		}
		d.nothingLeft(t)
	}
	d.settles(t)
	if now := d.descriptors(t); now > before {
		t.Errorf("%d descriptors before, %d after", before, now)
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" {
		t.Errorf("afterwards: %+v", got)
	}
	if refused := d.metric(t, "sandboxd_refused_connections_total"); refused != 3 {
		t.Errorf("%v refused connections, want 3", refused)
	}
	d.stop(t)
	if log := d.records(t); !strings.Contains(log, "descriptors were passed") {
		t.Errorf("the log doesn't say so:\n%s", log)
	}
}

// awaitRunning waits until a command with the marker runs.
func (d *daemon) awaitRunning(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // polls what the test is about
		for _, process := range d.left() {
			if strings.Contains(process, d.marker) {
				return
			}
		}
	}
	t.Fatalf("nothing runs\n%s", d.log)
}

// callerPID finds who was recorded as the caller of the last release.
var callerPID = regexp.MustCompile(`"type":"release".*"caller":\{"uid":0,"gid":0,"pid":(\d+),"via":"socket"\}`)

func (d *daemon) lastCaller(t *testing.T) string {
	t.Helper()
	found := callerPID.FindAllStringSubmatch(d.records(t), -1)
	if len(found) == 0 {
		t.Fatalf("no release of a caller:\n%s", d.records(t))
	}
	return found[len(found)-1][1]
}

// TestCallerOfAnotherPIDNamespace: the pid on record is the caller's as the daemon sees it, never the one that it has for itself, and 0 where
// the daemon can't see it.
func TestCallerOfAnotherPIDNamespace(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "")
	d := start(t, bin, stateDir(t))
	program, err := visitorProgram()
	if err != nil {
		t.Fatal(err)
	}
	inner := exec.Command(program, visitor, "ask", d.socket, request(sayRan))
	inner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := inner.CombinedOutput(); err != nil || !strings.Contains(string(out), `"stdout":"ran`) {
		t.Errorf("from a namespace below: %v %s", err, out)
	}
	if got := d.lastCaller(t); got != fmt.Sprint(inner.Process.Pid) {
		t.Errorf("a caller of a namespace below is recorded as %s, want %d", got, inner.Process.Pid)
	}
	d.stop(t)

	below := prepare(t, bin, stateDir(t))
	below.Path, below.Args = program, append([]string{program, visitor, "inside"}, below.Args...)
	below.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	below.run(t)
	if got := below.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" {
		t.Errorf("a daemon in a PID namespace: %+v\n%s", got, below.log)
	}
	if got := below.lastCaller(t); got != "0" {
		t.Errorf("a caller that the daemon can't see is recorded as %s, want 0", got)
	}
	below.stop(t)
}

// TestTokenMode: over TCP the token is all that counts, and without the flags nothing listens.
func TestTokenMode(t *testing.T) {
	needRoot(t)
	t.Parallel()
	const token = "service-level-token-0123456789abcdef"
	bin := binaries(t, "")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused := prepare(t, bin, stateDir(t), "--listen 127.0.0.1:0", "--token-file "+file)
	if err := refused.Run(); err == nil || !strings.Contains(refused.log.String(), "mode 0644") {
		t.Errorf("with a token that all may read: %v\n%s", err, refused.log)
	}
	if _, err := os.Lstat(refused.socket); err == nil {
		t.Error("its socket is still there")
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, bin, stateDir(t), "--listen 127.0.0.1:0", "--token-file "+file)
	address := regexp.MustCompile(`network=tcp address=(\S+)`).FindStringSubmatch(d.log.String())
	if address == nil {
		t.Fatalf("no address:\n%s", d.log)
	}
	for _, test := range []struct {
		header string
		want   int
	}{{"", 401}, {"Bearer wrong", 401}, {"Bearer " + token, 200}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address[1]+"/v1/exec", strings.NewReader(sayRan))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", test.header)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := bufio.NewReader(response.Body).ReadString('\n')
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%q: %d %s, want %d", test.header, response.StatusCode, text, test.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	d.stop(t)
	if log := d.records(t); !strings.Contains(log, `"via":"token"`) || strings.Contains(log, token) || strings.Contains(d.log.String(), token) {
		t.Errorf("the log should name the way and not the token:\n%s", log)
	}
}
