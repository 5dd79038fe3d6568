package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// inNamespace says that this process has a mount namespace of its own, where volumes are mounted that nobody else sees.
const inNamespace = "COMPOSE_TEST_NAMESPACE"

func TestMain(m *testing.M) {
	unshare, err := exec.LookPath("unshare")
	if os.Geteuid() != 0 || err != nil || os.Getenv(inNamespace) != "" {
		os.Exit(m.Run())
	}
	again := exec.Command(unshare, append([]string{"--mount", "--propagation", "private", "/proc/self/exe"}, os.Args[1:]...)...)
	again.Args[4], _ = os.Executable()
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.Env = append(os.Environ(), inNamespace+"=1")
	if err := again.Run(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// engine runs the services of a project as an engine would, as far as this file asks for: each a bundle of runc.
type engine struct {
	t       *testing.T
	project *types.Project
	dir     string
	roots   map[string]string // the root file system of each image
	volumes map[string]string
}

func newEngine(t *testing.T, project *types.Project, roots map[string]string) *engine {
	e := &engine{t: t, project: project, dir: t.TempDir(), roots: roots, volumes: map[string]string{}}
	for name, volume := range project.Volumes {
		path := filepath.Join(e.dir, "volumes", name)
		e.must(os.MkdirAll(path, 0o700))
		e.volumes[name] = path
		if volume.DriverOpts["type"] == "tmpfs" {
			e.command("mount", "-t", "tmpfs", "-o", volume.DriverOpts["o"], "tmpfs", path)
			t.Cleanup(func() { _ = exec.Command("umount", "-l", path).Run() })
			continue
		}
		e.must(os.Chown(path, 65532, 65532)) // as the image has the directory
	}
	t.Cleanup(func() {
		for name := range project.Services {
			_ = exec.Command("runc", "--root", e.root(), "delete", "--force", e.id(name)).Run()
		}
	})
	return e
}

func (e *engine) root() string { return filepath.Join(e.dir, "runc") }

func (e *engine) id(service string) string {
	return fmt.Sprintf("sandboxd-compose-%d-%s", os.Getpid(), service)
}

func (e *engine) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *engine) command(name string, args ...string) string {
	e.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		e.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// bundle writes a service's bundle.
func (e *engine) bundle(name string) string {
	e.t.Helper()
	s := e.project.Services[name]
	var uid, gid uint32
	_, err := fmt.Sscanf(s.User, "%d:%d", &uid, &gid)
	e.must(err)
	args := append([]string(s.Entrypoint), s.Command...)
	if len(s.Entrypoint) == 0 {
		args = append([]string{"/sandboxd"}, s.Command...) // the image's
	}
	spec := specs.Spec{
		Version: "1.0.2", Hostname: name, Root: &specs.Root{Path: e.roots[s.Image], Readonly: s.ReadOnly},
		Process: &specs.Process{
			User: specs.User{UID: uid, GID: gid}, Args: args, Cwd: "/", Env: []string{"PATH=/usr/bin:/bin"},
			NoNewPrivileges: s.SecurityOpt[0] == "no-new-privileges:true", Capabilities: &specs.LinuxCapabilities{},
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			CgroupsPath:   "/" + e.id(name),
			Resources:     &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			Namespaces:    []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.UTSNamespace}, {Type: specs.IPCNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.PIDNamespace}},
			MaskedPaths:   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if other, shared := strings.CutPrefix(s.Pid, "service:"); shared {
		spec.Linux.Namespaces[4].Path = fmt.Sprintf("/proc/%d/ns/pid", e.pid(other))
	}
	if other, shared := strings.CutPrefix(s.NetworkMode, "service:"); shared {
		spec.Linux.Namespaces[3].Path = fmt.Sprintf("/proc/%d/ns/net", e.pid(other))
	}
	for _, v := range s.Volumes {
		options := []string{"bind", "rw"}
		if v.ReadOnly {
			options[1] = "ro"
		}
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: v.Target, Type: "bind", Source: e.volumes[v.Source], Options: options})
	}
	for _, text := range s.Tmpfs {
		target, options, _ := strings.Cut(text, ":")
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev", "noexec"}, strings.Split(options, ",")...)})
	}
	dir := filepath.Join(e.dir, "bundles", name)
	e.must(os.MkdirAll(dir, 0o755))
	data, err := json.Marshal(spec)
	e.must(err)
	e.must(os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644))
	return dir
}

func (e *engine) pid(service string) int {
	var state struct {
		PID int `json:"pid"`
	}
	e.must(json.Unmarshal([]byte(e.command("runc", "--root", e.root(), "state", e.id(service))), &state))
	return state.PID
}

func (e *engine) running(service string) bool {
	out, err := exec.Command("runc", "--root", e.root(), "state", e.id(service)).Output()
	return err == nil && bytes.Contains(out, []byte(`"running"`))
}

// start runs a service that stays, run one that ends.
func (e *engine) start(name string) *os.File {
	e.t.Helper()
	log, err := os.Create(filepath.Join(e.dir, name+".log"))
	e.must(err)
	e.t.Cleanup(func() { log.Close() })
	command := exec.Command("runc", "--root", e.root(), "run", "--detach", "--bundle", e.bundle(name), e.id(name))
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		e.t.Fatalf("%s: %v\n%s", name, err, e.log(name))
	}
	return log
}

func (e *engine) run(name string) {
	e.t.Helper()
	e.command("runc", "--root", e.root(), "run", "--bundle", e.bundle(name), e.id(name))
}

func (e *engine) log(name string) string {
	data, _ := os.ReadFile(filepath.Join(e.dir, name+".log"))
	return string(data)
}

// exec runs a command in a service's container, as `docker compose exec` does.
func (e *engine) exec(service string, args ...string) (string, error) {
	out, err := exec.Command("runc", append([]string{"--root", e.root(), "exec", "--user", e.project.Services[service].User, e.id(service)}, args...)...).CombinedOutput()
	return string(out), err
}

func (e *engine) within(what string, ok func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("%s: not within 30 s\n%s\n%s", what, e.log("sandboxd"), e.log("runner"))
		}
	}
}

const socket = "--socket=/run/sandboxd/api/socket/sandboxd.sock"

// TestWhatItSaysRuns: in the order that it says, what is executed in the runner is proven, and has nothing; told to stop, all ends, and the log is sealed.
func TestWhatItSaysRuns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("runc needs root here")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		if os.Getenv("SANDBOXD_REQUIRE_RUNC") != "" {
			t.Fatal("runc: not installed")
		}
		t.Skip("runc: not installed")
	}
	bin := os.Getenv("SANDBOXD_BIN")
	if bin == "" {
		t.Skip("SANDBOXD_BIN: want the directory of sandboxd, sandboxd-runner and probe")
	}
	project := mustLoad(t)
	images := t.TempDir()
	e := newEngine(t, project, map[string]string{"sandboxd:0.1.0": filepath.Join(images, "sandboxd"), "runner:1": filepath.Join(images, "runner")})
	e.command("sh", "-ec", `cd "$0" && umask 022 && mkdir -p sandboxd/tmp sandboxd/var/lib/sandboxd runner/bin runner/tmp runner/work && chmod 1777 */tmp && cp "$1"/sandboxd "$1"/sandboxd-runner sandboxd/ && cp "$1"/probe runner/bin/`,
		images, bin)
	e.must(os.Chmod(images, 0o755))

	e.start("sandboxd")
	e.within("healthy", func() bool {
		_, err := e.exec("sandboxd", project.Services["sandboxd"].HealthCheck.Test[1:]...)
		return err == nil
	})
	e.run("install")
	e.start("runner")
	e.within("ready", func() bool {
		_, err := e.exec("sandboxd", "/sandboxd", "healthz", "--ready", socket)
		return err == nil
	})

	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"a proof", "held: tier restricted", []string{"exec", socket, "--stdin", "none", "--explain", "--", "/bin/probe", "status"}},
		{"its user", "Uid:\t65533\t65533\t65533\t65533", []string{"exec", socket, "--stdin", "none", "--", "/bin/probe", "status"}},
		{"how it is", "connected as uid 65533", []string{"status", socket}},
		{"no connection", "EAFNOSUPPORT", []string{"exec", socket, "--stdin", "none", "--", "/bin/probe", "connect", "192.0.2.1:80"}},
		{"a denial", "denied", []string{"exec", socket, "--stdin", "none", "--security-context", `{"privileged":true}`, "--", "/bin/probe", "status"}},
		{"everything, now, and tried", "held: tier restricted", []string{"verify", socket}},
	} {
		if out, err := e.exec("sandboxd", append([]string{"/sandboxd"}, test.args...)...); !strings.Contains(out, test.want) {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
	}
	e.command("runc", "--root", e.root(), "kill", e.id("sandboxd"), "TERM")
	e.within("stopped", func() bool { return !e.running("sandboxd") && !e.running("runner") })
	state := filepath.Join(e.volumes["state"], "audit")
	if out, err := exec.Command(filepath.Join(bin, "sandboxd"), "audit", "verify", "--sealed", state).CombinedOutput(); err != nil {
		t.Errorf("the log: %v\n%s", err, out)
	}
}
