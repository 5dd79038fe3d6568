package network

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

// sandboxed runs the client by the program as it is installed, in the test network: its own name server is the network's.
func (p place) sandboxed(t *testing.T, bin, bundle string, rules policy.NetworkSpec, args ...string) string {
	t.Helper()
	network, err := json.Marshal(rules, json.OmitZeroStructFields(true))
	if err != nil {
		t.Fatal(err)
	}
	command := []string{filepath.Join(bin, "sandboxd"), "exec", "--state", t.TempDir(), "--policy", bundle, "--network", wire(network), "--show", p.w.Dir, "--show", bin}
	for _, variable := range []string{
		"HOME=/tmp", "CA=" + p.w.CA, "SSL_CERT_FILE=" + p.w.CA, "REQUESTS_CA_BUNDLE=" + p.w.CA, "NODE_EXTRA_CA_CERTS=" + p.w.CA,
		"GO_CLIENT=" + filepath.Join(bin, "goclient"),
	} {
		command = append(command, "--env", variable)
	}
	return p.run(t, append(append(command, "--"), args...)...)
}

// wire leaves out empty lists of ports, which a request has none of.
func wire(network []byte) string { return strings.ReplaceAll(string(network), `,"ports":[]`, "") }

// programs are sandboxd and its launcher: those of SANDBOXD_BIN, or built now; and this test as a client. They lie where sandboxes may see them, and are made
// once for all tests.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := madePrograms()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var (
	madePrograms = sync.OnceValues(makePrograms)
	programsDir  string // for TestMain to remove
)

func makePrograms() (bin string, err error) {
	if bin, err = os.MkdirTemp("/var/tmp", "sandboxd-network-bin"); err != nil {
		return "", err
	}
	programsDir = bin
	if err := os.Chmod(bin, 0o755); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	from := map[string]string{"goclient": self}
	for _, name := range []string{"sandboxd", "sandboxd-runner"} {
		if dir := os.Getenv("SANDBOXD_BIN"); dir != "" {
			from[name] = filepath.Join(dir, name)
			continue
		}
		build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, name), "../../cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %w\n%s", name, err, out)
		}
	}
	for name, path := range from {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(bin, name), data, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	return bin, nil
}

// bundleFor is the built-in policy with the targets that the clients and the attacks ask for, so that it is the network that refuses and not the policy.
func bundleFor(t *testing.T, specs ...policy.NetworkSpec) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	var targets []map[string]any
	for _, spec := range specs {
		for _, rule := range spec.Egress {
			targets = append(targets, map[string]any{"target": rule.Target, "ports": rule.Ports})
		}
	}
	list, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	// The cases that come with it say no to what is listed here, and a policy that its cases contradict isn't taken.
	if err := os.Remove(filepath.Join(dir, "corpus", "network.json")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), `"targets": []`, `"targets": `+string(list), 1)
	if changed == string(data) {
		t.Fatal("data.json has no targets to change")
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestClientsInASandbox(t *testing.T) {
	w := New(t)
	rules := spec(t, allowed)
	bin, bundle := programs(t), bundleFor(t, rules)
	for _, client := range clients {
		t.Run(client.name, func(t *testing.T) {
			said := place{w: w}.sandboxed(t, bin, bundle, rules, client.command...)
			if !regexp.MustCompile(client.says).MatchString(said) {
				t.Errorf("%s\nsays %s\nwant %s", client.command, said, client.says)
			}
		})
	}
}

// everything stands for a default of allow, which the built-in policy never lets through.
const everything = "allow 0.0.0.0/0, allow ::/0"

// otherwise are the rows that end otherwise in a sandbox, where more stands in front of the network than the fence: while nothing at all is let out, names
// and relay aren't served and Landlock refuses each connection (a kernel before 6.7: the fence does), and no program has the capability that raw sockets
// take.
func otherwise() map[string]struct{ says, told string } {
	connect := `PermissionError 13 exit 0$`
	if landlock.ABI() < 4 {
		connect = refused
	}
	return map[string]struct{ says, told string }{
		"D1 empty list of rules":      {notKnown, ""},
		"D1 an address without rules": {connect, ""},
		"D2 rules that only deny":     {notKnown, ""},
		"D31 ping":                    {`^PermissionError exit 0$`, ""},
		// A sandbox that is let out to every address has no name, and so no address that stands for one.
		"D38 a synthetic address that nobody was given": {refused, `relay: denied 198.18.77.1:80: an address of the sandbox itself (rule -3)`},
	}
}

// TestGroupDInASandbox tries the same in a sandbox as it is: with all that confines a program, by the walk that puts the fence there. What is refused is on record with the
// rule that decided, and the network is proven before and after.
func TestGroupDInASandbox(t *testing.T) { inASandbox(t, slices.Concat(rows, insideRows)) }

func inASandbox(t *testing.T, rows []row) {
	w := New(t)
	specs := make([]policy.NetworkSpec, len(rows))
	for i, row := range rows {
		specs[i] = spec(t, strings.ReplaceAll(row.rules, "default allow", everything))
	}
	d := startDaemon(t, w, specs)
	other := otherwise()
	for i, row := range rows {
		t.Run(row.id+" "+row.name, func(t *testing.T) {
			if answer, is := other[row.id+" "+row.name]; is {
				row.says, row.told = answer.says, answer.told
			}
			b := d.keep(t, specs[i])
			before := w.AllAccepted()
			command := row.filled(t)
			if at := slices.Index(command, "SOCKET"); at >= 0 {
				command[at] = d.socket()
			}
			said := b.run(t, command...)
			if !regexp.MustCompile(row.says).MatchString(said) {
				t.Errorf("row %d, %s\nsays %s\nwant %s", i, row.command, said, row.says)
			}
			if recorded, right := toldOf(row.told, func() []string { return b.recorded(t) }); !right {
				t.Errorf("on record is %q, want %q", recorded, row.told)
			}
			b.readBack(t)
			row.neverElsewhere(t, w, before)
		})
	}
}
