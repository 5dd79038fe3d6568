// Package arrows holds no code. Its tests hold the rooms and arrows of ARCHITECTURE.md: who may import whom, who may use unsafe, and that
// the launcher stays small.
package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandboxd/sandboxd"

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	// IgnoredGoFiles are those of other architectures and build tags.
	IgnoredGoFiles []string
}

// list returns the packages that match, ours by their path below the module.
func list(t *testing.T, args ...string) map[string]pkg {
	t.Helper()
	command := exec.Command("go", append([]string{"list", "-json"}, args...)...)
	command.Dir = "../.."
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	packages := map[string]pkg{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[room(p.ImportPath)] = p
	}
}

func room(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

// ours are the packages of this module among imports.
func ours(imports []string) []string {
	var found []string
	for _, imported := range imports {
		if strings.HasPrefix(imported, module+"/") {
			found = append(found, room(imported))
		}
	}
	return found
}

// arrow lists, for a room, the rooms that it may import. A pattern that ends in "/..." is the folder and all below it.
type arrow struct {
	from string
	to   []string
}

// arrows are read from the top: the first pattern that a package matches is the one that counts.
var arrows = []arrow{
	{"cmd/sandboxd-runner", []string{"runner", "enforcer/..."}},
	{"cmd/sandboxd/...", []string{"execd/...", "runner", "enforcer", "policy", "policy/engine", "rego"}},
	{"execd/audit", []string{"policy"}},
	{"execd/...", []string{"execd/...", "runner/...", "enforcer/...", "policy", "policy/engine", "rego"}},
	{"runner/...", []string{"runner/...", "enforcer/...", "policy"}},
	{"enforcer", []string{"enforcer/...", "policy"}},
	{"enforcer/kerneltest", nil},
	{"enforcer/network", []string{"policy"}},                 // judges by its words
	{"enforcer/network/relay", []string{"enforcer/network"}}, // asks it for each connection
	{"enforcer/...", nil}, // the mechanisms: no policy, not each other
	{"policy/engine", []string{"policy", "rego"}},
	{"clients/go", []string{"policy"}}, // what others import: nothing of the daemon
	{"policy", nil},
	{"rego", nil},
	{"test/...", []string{"..."}},
}

func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == folder || strings.HasPrefix(name, folder+"/")
	}
	return name == pattern
}

func TestArrows(t *testing.T) {
	for name, p := range list(t, "./...") {
		i := slices.IndexFunc(arrows, func(a arrow) bool { return matches(a.from, name) })
		if i < 0 {
			t.Errorf("%s is in no room: a new folder needs its arrows here and in ARCHITECTURE.md", name)
			continue
		}
		for _, imported := range ours(p.Imports) {
			if !slices.ContainsFunc(arrows[i].to, func(to string) bool { return matches(to, imported) }) {
				t.Errorf("%s imports %s; it may import %v", name, imported, arrows[i].to)
			}
		}
	}
}

// What reaches a room through others counts as well: an arrow that is right one step at a time can still carry OPA into the launcher.
func TestWhatTheRoomsNeverHave(t *testing.T) {
	standardOnly := func(p pkg) bool { return p.Standard || strings.HasPrefix(p.ImportPath, module+"/policy") }
	for _, test := range []struct {
		room      string
		forbidden []string // prefixes of import paths
		why       string
	}{
		{"cmd/sandboxd-runner", []string{"github.com/open-policy-agent/", "github.com/miekg/dns", "net/http", "crypto/tls", "os/exec", module + "/execd", module + "/policy/engine", module + "/rego"},
			"the launcher lives in the sandbox: small, no policy, no HTTP"},
		{"runner", []string{"github.com/open-policy-agent/", module + "/execd", module + "/policy/engine"}, "the launcher is made of it"},
		{"enforcer", []string{"github.com/open-policy-agent/", "net/http", module + "/execd", module + "/runner"}, "it is below both"},
		{"policy", []string{"os/exec", "net/http", "golang.org/x/", "log/slog"}, "words are pure"},
	} {
		for _, p := range list(t, "-deps", "./"+test.room) {
			for _, forbidden := range test.forbidden {
				if strings.HasPrefix(p.ImportPath, forbidden) {
					t.Errorf("%s depends on %s: %s", test.room, p.ImportPath, test.why)
				}
			}
		}
	}
	for _, p := range list(t, "-deps", "./policy") {
		if !standardOnly(p) {
			t.Errorf("policy depends on %s: standard library only", p.ImportPath)
		}
	}
	for _, p := range list(t, "-deps", "./clients/go") {
		if !standardOnly(p) && p.ImportPath != module+"/clients/go" {
			t.Errorf("clients/go depends on %s: standard library and policy only", p.ImportPath)
		}
	}
}

func TestOneImporterOfOPA(t *testing.T) {
	for name, p := range list(t, "./...") {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imported, "github.com/open-policy-agent/opa/v1/") && name != "policy/engine" && name != "rego" {
				t.Errorf("%s imports %s: only policy/engine does", name, imported)
			}
			if name == "rego" && slices.Contains(p.Imports, imported) && strings.HasPrefix(imported, "github.com/") {
				t.Errorf("rego imports %s outside its tests: it is an fs.FS", imported)
			}
		}
	}
}

// unsafeFiles may import "unsafe", each for a reason. Anything else finds a wrapper in golang.org/x/sys/unix.
var unsafeFiles = map[string]string{
	"enforcer/landlock/create_linux.go":         "landlock_create_ruleset and landlock_add_rule have no wrapper",
	"enforcer/network/fence/elsewhere_linux.go": "a raw fork whose child opens sockets in a new network namespace, into our table of descriptors",
	"enforcer/seccomp/readback_linux.go":        "PTRACE_SECCOMP_GET_FILTER has no wrapper",
	"enforcer/seccomp/readback_probe_linux.go":  "a raw fork whose child installs a filter, to try whether it can be read back",
	"enforcer/seccomp/self_linux.go":            "seccomp(SECCOMP_SET_MODE_FILTER) has no wrapper",
	"runner/gate_pidfd_linux.go":                "ioctl(PIDFD_GET_INFO) has no wrapper",
	"runner/launcher_identity_linux.go":         "prctl(PR_SET_NAME) on the thread that re-executes itself",
	"runner/launcher_signals_linux.go":          "rt_sigaction(2) has no wrapper",
	"runner/listener_linux.go":                  "ioctl(SECCOMP_IOCTL_NOTIF_…) has no wrapper",
	"runner/proto.go":                           "the messages are structs that both ends lay out alike",
	"runner/vfork_linux.go":                     "the raw vfork, and what its child walks",
	"runner/worker_exec_linux.go":               "the vfork child shares the worker's memory",
	"runner/worker_inbox_linux.go":              "recvmsg(2) without an allocation, in a process without a poller",
	"runner/worker_plan_linux.go":               "the table's pointers, in memory that the kernel reads later",
	"runner/worker_start_linux.go":              "the page that worker and child share",
	"runner/worker_tree_linux.go":               "ppoll, waitid and wait4 without an allocation",
	"test/bench/parts.go":                       "installs a filter, to measure that alone",
	"test/probe/raw_linux.go":                   "forbidden acts that have no wrapper",
}

func TestUnsafeIsNamed(t *testing.T) {
	found := map[string]bool{}
	for name, p := range list(t, "./...") {
		for _, file := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(source, []byte("\n\t\"unsafe\"\n")) || bytes.Contains(source, []byte("\nimport \"unsafe\"\n")) ||
				bytes.Contains(source, []byte("\nimport _ \"unsafe\"")) || bytes.Contains(source, []byte("\n\t_ \"unsafe\"")) {
				file = path.Join(name, file)
				found[file] = true
				if unsafeFiles[file] == "" {
					t.Errorf("%s imports unsafe and isn't named in this test", file)
				}
			}
			if bytes.Contains(source, []byte("//go:linkname")) {
				t.Errorf("%s/%s uses go:linkname: the runtime's names change under it", name, file)
			}
		}
	}
	for file := range unsafeFiles {
		if !found[file] {
			t.Errorf("%s is named here and doesn't import unsafe (any more)", file)
		}
	}
}

// Kernel calls live in files that say so. A wrapper-free file that compiles elsewhere would be a stub in waiting.
func TestKernelFilesAreLinuxFiles(t *testing.T) {
	for name, p := range list(t, "./enforcer/...", "./runner/...", "./execd/...") {
		for _, file := range p.GoFiles {
			source, err := os.ReadFile(path.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"unix.RawSyscall", "unix.Syscall", "syscall.RawSyscall", "syscall.Syscall"} {
				if bytes.Contains(source, []byte(call)) && !strings.Contains(file, "_linux") {
					t.Errorf("%s/%s calls %s and its name doesn't end in _linux.go", name, file, call)
				}
			}
		}
	}
}

// launcherBytes: DESIGN's bound for the launcher's binary, since it is mapped in every sandbox.
const launcherBytes = 4 << 20

func TestLauncherIsSmall(t *testing.T) {
	binary := path.Join(t.TempDir(), "sandboxd-runner")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/sandboxd-runner")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= launcherBytes {
		t.Errorf("the launcher has %d bytes; %d is the bound", info.Size(), launcherBytes)
	}
}

// main.go only wires: what it grows belongs in a file with a name.
func TestMainFilesAreShort(t *testing.T) {
	for name, p := range list(t, "./cmd/...") {
		source, err := os.ReadFile(path.Join(p.Dir, "main.go"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if lines := bytes.Count(source, []byte("\n")); lines >= 60 {
			t.Errorf("%s/main.go has %d lines; under 60", name, lines)
		}
	}
}
