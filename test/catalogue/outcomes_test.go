package catalogue

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// death is one way to die, and what each of the three that tell of it must say. Where wants differ from the outcome's own, they are here.
type death struct {
	outcome execd.Outcome
	// daemon is whom to ask.
	daemon string
	// kept: in a sandbox of its own that lives until it is deleted.
	kept bool
	body string
	run  []string
	// meanwhile is done to it once it runs; it is told the pid of the program, which must be "PROBE sleep SECONDS" then.
	meanwhile func(t *testing.T, d *daemon, box string, pid int)

	// exit is the reply's exit code or "none", signal its signal or "none".
	exit, signal string
	// status is the command line's, said what it prints on stderr besides the program's own.
	status int
	said   string
	// record is the type of the first record.
	record audit.Type
	// lack is a mechanism without which the request is denied by its name.
	lack string
}

// deaths are every way of dying (DESIGN §8), and the programs that look like one of ours.
var deaths = []death{
	{outcome: execd.OutcomeOK, run: []string{"PROBE", "exit", "0"}, exit: "0", signal: "none", status: 0, record: audit.TypeRelease},
	{outcome: execd.OutcomeError, run: []string{"PROBE", "exit", "3"}, exit: "3", signal: "none", status: 3, record: audit.TypeRelease},
	{outcome: execd.OutcomeError, run: []string{"PROBE", "exit", "124"}, exit: "124", signal: "none", status: 124, record: audit.TypeRelease},
	{outcome: execd.OutcomeError, run: []string{"PROBE", "exit", "137"}, exit: "137", signal: "none", status: 137, record: audit.TypeRelease},
	{outcome: execd.OutcomeSignaled, run: []string{"PROBE", "raise", "15"}, exit: "none", signal: "15", status: 143, said: "ended by SIGTERM", record: audit.TypeRelease},
	{outcome: execd.OutcomeSignaled, run: []string{"PROBE", "raise", "9"}, exit: "none", signal: "9", status: 137, said: "ended by SIGKILL", record: audit.TypeRelease},
	{outcome: execd.OutcomeTimeout, body: `"limits":{"timeoutSeconds":0.3}`, run: []string{"PROBE", "sleep", "1000"}, exit: "none", signal: "9", status: 124,
		said: "timeout: killed after 0.3", record: audit.TypeRelease},
	{outcome: execd.OutcomeOOM, body: `"limits":{"memoryBytes":67108864}`, run: []string{"PROBE", "memory", "500000000"}, exit: "none", signal: "9", status: 137,
		said: "oom: ", record: audit.TypeRelease, lack: "cgroup.memory"},
	{outcome: execd.OutcomeOutputLimit, daemon: "strict output", run: []string{"PROBE", "print", "500000000"}, exit: "none", signal: "9", status: 125,
		said: "output_limit: ", record: audit.TypeRelease},
	{outcome: execd.OutcomeDenied, body: `"securityContext":{"privileged":true}`, run: []string{"PROBE", "exit", "0"}, exit: "none", signal: "none", status: 125,
		said: "denied: ", record: audit.TypeDecision},
	{outcome: execd.OutcomeMismatch, daemon: "sabotage", run: []string{"PROBE", "exit", "0"}, exit: "none", signal: "none", status: 125,
		said: "rlimit.nofile is ", record: audit.TypeMismatch},
	{outcome: execd.OutcomeNotStarted, run: []string{"SHOW/not-executable"}, exit: "none", signal: "none", status: 126, said: "not_started: ", record: audit.TypeRelease},
	{outcome: execd.OutcomeNotStarted, run: []string{"/no/such/program"}, exit: "none", signal: "none", status: 127, said: "not_started: ", record: audit.TypeOutcome},
	{outcome: execd.OutcomeNotStarted, run: []string{"SHOW/script-without-interpreter"}, exit: "none", signal: "none", status: 127, said: "its interpreter", record: audit.TypeRelease},
	{outcome: execd.OutcomeCancelled, kept: true, run: []string{"PROBE", "sleep"}, meanwhile: deleteSandbox, exit: "none", signal: "9", status: 130, said: "cancelled", record: audit.TypeRelease},
	{outcome: execd.OutcomeInfra, run: []string{"PROBE", "sleep"}, meanwhile: killLauncher, exit: "none", signal: "none", status: 125, said: "infra: ", record: audit.TypeRelease},
}

// TestOutcomes: every way of dying is told apart by the API, the command line and the record, and all three say the same.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	bin := binaries(t)
	f := &fixture{bin: bin, show: shown(t, bin), daemons: map[string]*daemon{}}
	f.probe = filepath.Join(f.show, "probe")
	f.daemons[""] = startDaemon(t, bin, "--show", f.show)
	f.daemons["strict output"] = startDaemon(t, bin, "--show", f.show, "--policy", strictOutput(t))
	if _, err := os.Stat(filepath.Join(bin, "sabotage")); err == nil {
		f.daemons["sabotage"] = startDaemon(t, filepath.Join(bin, "sabotage"), "--show", f.show)
	}
	have := map[string]bool{}
	for _, m := range f.daemons[""].status(t).Host.Mechanisms {
		have[m.Name] = m.Have
	}
	seen := map[execd.Outcome]bool{}
	for i, one := range deaths {
		seen[one.outcome] = true
		for _, teller := range []string{"API", "command line", "command line's JSON"} {
			t.Run(fmt.Sprintf("%s %s by the %s", one.outcome, strings.Join(one.run, " "), teller), func(t *testing.T) {
				if f.daemons[one.daemon] == nil {
					count.note(count.skipped, "the build with steps left out")
					t.Skip("SKIP: SANDBOXD_BIN has no folder " + one.daemon)
				}
				if one.lack != "" && !have[one.lack] {
					// Without it the request is denied, by the same three.
					one.outcome, one.status, one.signal, one.said, one.record = execd.OutcomeDenied, 125, "none", "denied: ", audit.TypeDecision
					count.note(count.refused, one.lack)
				} else {
					defer func() {
						if !t.Failed() {
							count.hold()
						}
					}()
				}
				one.tell(t, f, teller, 1000*(i+1)+len(teller))
			})
		}
	}
	for _, outcome := range execd.Outcomes {
		if !seen[outcome] {
			t.Errorf("nothing dies of %s here", outcome)
		}
	}
}

// tell asks one of the tellers. mark makes the program's command line this one's alone.
func (x death) tell(t *testing.T, f *fixture, teller string, mark int) {
	t.Helper()
	d := f.daemons[x.daemon]
	r := row{run: x.run, body: x.body}
	box := ""
	if x.meanwhile != nil {
		r.run = append(append([]string{}, x.run...), strconv.Itoa(mark))
	}
	if x.kept {
		_, data, err := d.do(t.Context(), "POST", "/v1/sandboxes", "")
		var made execd.Sandbox
		if err != nil || json.Unmarshal(data, &made) != nil || made.ID == "" {
			t.Fatalf("a sandbox: %s %v", data, err)
		}
		box = made.ID
	}
	done := make(chan struct{})
	if x.meanwhile != nil {
		go func() {
			defer close(done)
			if pid := waitFor(t, f.probe+"\x00sleep\x00"+strconv.Itoa(mark)+"\x00"); pid > 0 {
				x.meanwhile(t, d, box, pid)
			}
		}()
	} else {
		close(done)
	}
	defer func() { <-done }() // it reports to this test, also when that gives up
	var reply execd.Reply
	switch teller {
	case "API":
		reply = x.api(t, f, d, r, box)
	case "command line":
		x.commandLine(t, f, d, r, box)
		return
	default:
		reply = x.commandLineJSON(t, f, d, r, box)
	}
	x.check(t, d, reply)
}

func (x death) api(t *testing.T, f *fixture, d *daemon, r row, box string) (reply execd.Reply) {
	t.Helper()
	path, body := r.request(f)
	if box != "" {
		body = fmt.Sprintf(`{"sandbox":%q,%s`, box, body[1:])
	}
	status, data, err := d.do(t.Context(), "POST", path, body)
	if err != nil || json.Unmarshal(data, &reply, json.RejectUnknownMembers(true)) != nil || status != statuses[x.outcome] {
		t.Fatalf("%d %s %v, want status %d", status, data, err, statuses[x.outcome])
	}
	return reply
}

// arguments are those of the command line for a row.
func (x death) arguments(f *fixture, d *daemon, r row, box string, more ...string) []string {
	args := append([]string{"exec", "--socket", d.socket, "--stdin", "none"}, more...)
	if box != "" {
		args = append(args, "--sandbox", box)
	}
	name, value, _ := strings.Cut(r.body, ":")
	switch name {
	case `"limits"`:
		args = append(args, "--limits", value)
	case `"securityContext"`:
		args = append(args, "--security-context", value)
	}
	args = append(args, "--")
	return append(args, r.command(f)...)
}

func (x death) commandLine(t *testing.T, f *fixture, d *daemon, r row, box string) {
	t.Helper()
	command := exec.Command(filepath.Join(f.bin, "sandboxd"), x.arguments(f, d, r, box)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	_ = command.Run() // the status says it
	if status := command.ProcessState.ExitCode(); status != x.status || !strings.Contains(stderr.String(), x.said) || x.said == "" && stderr.Len() > 0 {
		t.Errorf("status %d, stderr %q; want %d, %q", status, stderr.String(), x.status, x.said)
	}
}

func (x death) commandLineJSON(t *testing.T, f *fixture, d *daemon, r row, box string) (reply execd.Reply) {
	t.Helper()
	command := exec.Command(filepath.Join(f.bin, "sandboxd"), x.arguments(f, d, r, box, "--json")...)
	out, _ := command.Output() // the status says it
	if err := json.Unmarshal(out, &reply, json.RejectUnknownMembers(true)); err != nil || command.ProcessState.ExitCode() != x.status {
		t.Fatalf("status %d, stdout %s, %v; want %d", command.ProcessState.ExitCode(), out, err, x.status)
	}
	return reply
}

// check holds reply and record against the row, and against each other.
func (x death) check(t *testing.T, d *daemon, reply execd.Reply) {
	t.Helper()
	text := func(n *int) string {
		if n == nil {
			return "none"
		}
		return strconv.Itoa(*n)
	}
	if reply.Outcome != x.outcome || text(reply.ExitCode) != x.exit || text(reply.Signal) != x.signal || !reply.TreeEmpty || reply.TimedOut != (x.outcome == execd.OutcomeTimeout) {
		t.Errorf("%s, exit code %s, signal %s, treeEmpty %t, timedOut %t (%s); want %s, %s, %s", reply.Outcome, text(reply.ExitCode), text(reply.Signal), reply.TreeEmpty,
			reply.TimedOut, reply.Message, x.outcome, x.exit, x.signal)
	}
	if reply.ExitStatus() != x.status {
		t.Errorf("exit status %d, want %d", reply.ExitStatus(), x.status)
	}
	records := d.recorded(t, reply.ID)
	if len(records) == 0 {
		return
	}
	first, last := records[0], records[len(records)-1]
	if first.Type != x.record || last.Ending == nil || last.Ending.Outcome != string(x.outcome) || text(last.Ending.ExitCode) != x.exit || text(last.Ending.Signal) != x.signal {
		t.Errorf("on record as %s, %+v; want %s and %s", first.Type, last.Ending, x.record, x.outcome)
	}
}

// waitFor waits until a process has these bytes in its command line, and gives its pid.
func waitFor(t *testing.T, words string) int {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // polls the kernel's state
		for _, found := range processesWith(t, words) {
			path, _, _ := strings.Cut(found, " ")
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			if exe, linked := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && linked == nil && strings.HasSuffix(exe, "/probe") {
				return pid
			}
		}
	}
	t.Errorf("no process has %q", words)
	return 0
}

func deleteSandbox(t *testing.T, d *daemon, box string, _ int) {
	if status, data, err := d.do(context.Background(), "DELETE", "/v1/sandboxes/"+box, ""); err != nil || status != 204 {
		t.Errorf("delete: %d %s %v", status, data, err)
	}
}

// killLauncher ends the launcher of a program's sandbox, the parent of its parent, from outside.
func killLauncher(t *testing.T, _ *daemon, _ string, pid int) {
	worker := parentOf(t, pid)
	if launcher := parentOf(t, worker); launcher > 1 {
		if err := syscall.Kill(launcher, syscall.SIGKILL); err != nil {
			t.Errorf("kill the launcher: %v", err)
		}
	}
}

func parentOf(t *testing.T, pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
