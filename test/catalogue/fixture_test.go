package catalogue

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/rego"
)

// fixture is what the rows need: daemons, a directory that sandboxes see, and beings outside of their own sandbox to attack.
type fixture struct {
	bin, show, probe string
	// privileged has the images that give privilege to whoever executes them; only root can make it. Empty: nobody has.
	privileged string
	daemons    map[string]*daemon
	// mechanisms is what sandboxd says that this host has.
	mechanisms map[string]bool
	tier       string
	// kept is the id of a sandbox in which an exec runs, sibling is that one's pid there, host a process outside of all sandboxes.
	kept          string
	sibling, host int
	// daemon is the pid of the daemon, as that numbers it.
	daemon   int
	abstract string
	// pod is set where the daemon is a pod's.
	pod *pod
	// runnerDigest is that of the launcher's binary before anything ran.
	runnerDigest string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	bin := binaries(t)
	f := &fixture{bin: bin, show: shown(t, bin), daemons: map[string]*daemon{}, mechanisms: map[string]bool{}}
	f.probe = filepath.Join(f.show, "probe")
	f.runnerDigest = fileDigest(t, filepath.Join(bin, "sandboxd-runner"))
	flags := []string{"--show", f.show}
	if f.privileged = os.Getenv("SANDBOXD_SETUID"); os.Geteuid() == 0 {
		f.privileged = f.show
	} else if f.privileged != "" {
		flags = append(flags, "--show", f.privileged)
	}
	f.daemons[""] = startDaemon(t, bin, flags...)
	f.daemons["strict output"] = startDaemon(t, bin, "--show", f.show, "--policy", strictOutput(t))
	f.daemon = f.daemons[""].process.Process.Pid
	status := f.daemons[""].status(t)
	f.tier = string(status.Host.Tier)
	for _, m := range status.Host.Mechanisms {
		f.mechanisms[m.Name] = m.Have
	}
	f.bystander(t)
	f.family(t)
	return f
}

// socket is the daemon's, by the name that whoever sees it would have for it.
func (f *fixture) socket() string {
	if f.pod != nil {
		return podSocket
	}
	return f.daemons[""].socket
}

func (f *fixture) fill(text string) string {
	return strings.NewReplacer("PROBE", f.probe, "SHOW", f.show, "PRIVILEGED", f.privileged, "SIBLING", strconv.Itoa(f.sibling), "HOST", strconv.Itoa(f.host),
		"ABSTRACT", "@"+f.abstract, "SOCKET", f.socket(), "DAEMON", strconv.Itoa(f.daemon)).Replace(text)
}

// binaries are sandboxd, sandboxd-runner and probe, and in the folder sabotage the build that leaves steps out: those of SANDBOXD_BIN, or built now.
func binaries(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("SANDBOXD_BIN"); bin != "" {
		return bin
	}
	bin := t.TempDir()
	for _, one := range []struct{ path, to, tags string }{
		{"cmd/sandboxd", "", ""}, {"cmd/sandboxd-runner", "", ""}, {"test/probe", "", ""},
		{"cmd/sandboxd", "sabotage", "sabotage"}, {"cmd/sandboxd-runner", "sabotage", "sabotage"},
	} {
		build := exec.Command("go", "build", "-trimpath", "-tags", one.tags, "-o", filepath.Join(bin, one.to, filepath.Base(one.path)), "../../"+one.path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", one.path, err, out)
		}
	}
	return bin
}

// shown makes the directory that sandboxes see. Every sandbox has a /tmp and a /work of its own, so it lies elsewhere.
func shown(t *testing.T, bin string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-catalogue")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := show(dir, dir, bin); err != nil {
		t.Fatal(err)
	}
	return dir
}

// show fills such a directory; seen is what it is called in a sandbox.
func show(dir, seen, bin string) error {
	program, err := os.ReadFile(filepath.Join(bin, "probe"))
	if err != nil {
		return err
	}
	foreign := append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xf3\x00\x01\x00\x00\x00"), make([]byte, 64)...) // a RISC-V program
	for _, file := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{
		{"probe", 0o755, program},
		{"writable", 0o666, []byte("as it was\n")},
		{"secret", 0o600, []byte("secret\n")},
		{"not-executable", 0o644, []byte("#!/bin/sh\n")},
		{"script", 0o755, []byte("#!/bin/sh\necho \"$0\" \"$@\"\n")},
		{"script-of-probe", 0o755, []byte("#!" + seen + "/probe status\n")},
		{"script-of-script", 0o755, []byte("#!" + seen + "/script-of-probe\n")},
		{"script-without-interpreter", 0o755, []byte("#!/no/such/interpreter\n")},
		{"script-of-directory", 0o755, []byte("#!/usr\n")},
		{"foreign", 0o755, foreign},
		{"cut", 0o755, program[:40]},
		{"empty", 0o755, nil},
		{"text", 0o755, []byte("echo no interpreter line\n")},
	} {
		path := filepath.Join(dir, file.name)
		if err := errors.Join(os.WriteFile(path, file.data, file.mode), os.Chmod(path, file.mode)); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Symlink("/etc/shadow", filepath.Join(dir, "link-out")), os.Symlink("/proc/1/root/etc/shadow", filepath.Join(dir, "link-through-proc")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666), os.Chmod(filepath.Join(dir, "fifo"), 0o666), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return privilegedFiles(dir, seen, program)
}

// privilegedFiles are images of the kind that give privilege to whoever executes them: setuid, setgid, file capabilities, and scripts with such bits.
func privilegedFiles(dir, seen string, program []byte) error {
	script := []byte("#!" + seen + "/probe status\n")
	for name, file := range map[string]struct {
		mode os.FileMode
		data []byte
	}{
		"setuid":           {0o755 | os.ModeSetuid, program},
		"setgid":           {0o755 | os.ModeSetgid, program},
		"setboth":          {0o755 | os.ModeSetuid | os.ModeSetgid, program},
		"filecaps":         {0o755, program},
		"setuid-script":    {0o755 | os.ModeSetuid, script},
		"script-of-setuid": {0o755, []byte("#!" + seen + "/setuid status\n")},
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, file.data, 0o755), os.Chmod(path, file.mode)); err != nil {
			return err
		}
	}
	// struct vfs_cap_data, revision 2, every capability permitted and inheritable, effective (capabilities(7)).
	all := []byte{1, 0, 0, 2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0, 255, 1, 0, 0}
	return unix.Setxattr(filepath.Join(dir, "filecaps"), "security.capability", all, 0)
}

// bystander is a process and an abstract socket of this machine, outside of every sandbox.
func (f *fixture) bystander(t *testing.T) {
	t.Helper()
	process := exec.Command("/bin/sleep", "3600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	f.host = process.Process.Pid
	f.abstract = "sandboxd-catalogue-" + strconv.Itoa(os.Getpid())
	listener, err := net.Listen("unix", "@"+f.abstract)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
}

// family makes a sandbox and an exec in it that stays: the sibling of those that attack it.
func (f *fixture) family(t *testing.T) {
	t.Helper()
	d := f.daemons[""]
	status, data, err := d.do(t.Context(), "POST", "/v1/sandboxes", "")
	var box execd.Sandbox
	if err != nil || status != http.StatusCreated || json.Unmarshal(data, &box) != nil || !box.Verdict.Held {
		t.Fatalf("a sandbox: %d %s %v", status, data, err)
	}
	f.kept = box.ID
	f.settle(t)
}

// settle starts the exec that stays, in the kept sandbox, or in the one that all share.
func (f *fixture) settle(t *testing.T) {
	t.Helper()
	d := f.daemons[""]
	where := ""
	if f.kept != "" {
		where = fmt.Sprintf(`"sandbox":%q,`, f.kept)
	}
	body := `{"stream":true,` + where + `"command":{"argv":["sh","-c","echo $$; exec sleep 3600"]},"limits":{"timeoutSeconds":3600}}`
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	request, err := http.NewRequestWithContext(ctx, "POST", "http://sandboxd/v1/exec", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewScanner(response.Body)
	for f.sibling == 0 && events.Scan() {
		var event execd.Event
		if err := json.Unmarshal(events.Bytes(), &event); err != nil {
			t.Fatalf("%s: %v", events.Bytes(), err)
		}
		if event.Data != nil {
			f.sibling, _ = strconv.Atoi(strings.TrimSpace(*event.Data))
		}
	}
	if f.sibling == 0 {
		t.Fatalf("the sibling didn't start: %v", events.Err())
	}
	// It outlives every attack, and ends with its sandbox.
	t.Cleanup(func() {
		defer cancel()
		if f.kept == "" {
			response.Body.Close()
			return
		}
		if status, data, err := d.do(context.Background(), "DELETE", "/v1/sandboxes/"+f.kept, ""); err != nil || status != http.StatusNoContent {
			t.Errorf("delete: %d %s %v", status, data, err)
		}
		var last execd.Event
		for events.Scan() {
			last = execd.Event{}
			if err := json.Unmarshal(events.Bytes(), &last); err != nil {
				t.Errorf("%s: %v", events.Bytes(), err)
			}
		}
		response.Body.Close()
		if last.Reply == nil || last.Reply.Outcome != execd.OutcomeCancelled || !last.Reply.TreeEmpty {
			t.Errorf("the sibling didn't live until its sandbox was deleted: %+v", last.Reply)
		}
	})
}

// strictOutput is the built-in policy with one setting changed.
func strictOutput(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), `"on_output_limit": "truncate"`, `"on_output_limit": "kill"`, 1)
	if changed == string(data) {
		t.Fatal("data.json has no on_output_limit to change")
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fileDigest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
