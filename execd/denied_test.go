package execd

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/runner"
)

// TestDeniedCallsAreNamed: what the filter refused, what would allow it, in the reply and in the record; and only where it was asked for.
func TestDeniedCallsAreNamed(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	if !s.host.SeccompListener {
		t.Skip("seccomp.listener: Linux 5.19")
	}
	request := shell("unshare -U true; unshare -m true; echo done")
	plain := s.Exec(t.Context(), request, Options{})
	mustBe(t, plain, OutcomeOK)
	if plain.DeniedCalls != nil {
		t.Errorf("nobody asked: %+v", plain.DeniedCalls)
	}
	reply := s.Exec(t.Context(), request, Options{ExplainDenials: true, Rows: true})
	mustBe(t, reply, OutcomeOK)
	if *reply.Stdout != *plain.Stdout || *reply.Stderr != *plain.Stderr {
		t.Errorf("explained it printed %q %q, else %q %q", *reply.Stdout, *reply.Stderr, *plain.Stdout, *plain.Stderr)
	}
	if len(reply.DeniedCalls) != 1 || reply.DeniedCallsCut {
		t.Fatalf("%+v", reply.DeniedCalls)
	}
	got := reply.DeniedCalls[0]
	if got.Call != "unshare" || got.Count != 2 || got.Errno != "EPERM" || got.Profile != nil || !strings.HasPrefix(got.Remedy, "none: sandboxd refuses it under every profile") {
		t.Errorf("%+v", got)
	}
	i := slices.IndexFunc(reply.Verdict.Rows, func(row policy.Row) bool { return strings.Contains(row.Want, "seccomp notify") })
	if i < 0 || !reply.Verdict.Rows[i].Held || reply.Verdict.Rows[i].Evidence != policy.EvidenceKernel {
		t.Errorf("no row of the listener's descriptor: %+v", reply.Verdict.Rows)
	}
	stop(t, s)
	records := slices.DeleteFunc(readLog(t, c), func(r audit.Record) bool { return r.Type != audit.TypeOutcome })
	last := records[len(records)-1]
	if last.Ending == nil || len(last.Ending.DeniedCalls) != 1 || last.Ending.DeniedCalls[0].Call != "unshare" {
		t.Errorf("the record: %+v", last)
	}
}

// TestPolicyNamesDeniedCalls: a policy may ask for it in everybody's place.
func TestPolicyNamesDeniedCalls(t *testing.T) {
	c := testConfig(t)
	c.PolicyDir = filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(c.PolicyDir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(c.PolicyDir, "data.json"))
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"explain_denials": false`), []byte(`"explain_denials": true`), 1)
	if err := os.WriteFile(filepath.Join(c.PolicyDir, "data.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, c)
	if !s.host.SeccompListener {
		t.Skip("seccomp.listener: Linux 5.19")
	}
	reply := s.Exec(t.Context(), shell("unshare -U true; true"), Options{})
	mustBe(t, reply, OutcomeOK)
	if len(reply.DeniedCalls) != 1 || reply.DeniedCalls[0].Call != "unshare" {
		t.Errorf("%+v", reply.DeniedCalls)
	}
	// Observing has the listener to itself.
	var observed Observed
	mustBe(t, s.Exec(t.Context(), shell("unshare -U true; true"), Options{Observe: func(o Observed) { observed = o }}), OutcomeOK)
	if !slices.Contains(observed.Calls, "wait4") || slices.Contains(observed.Calls, "unshare") {
		t.Errorf("%+v", observed)
	}
}

// TestRemedies asks the simulated profiles, without a child.
func TestRemedies(t *testing.T) {
	s := start(t, testConfig(t))
	for _, row := range []struct {
		call    string
		args    [6]uint64
		profile string
		remedy  string
	}{
		{"mprotect", [6]uint64{0, 4096, 4}, "RuntimeDefault", "seccompProfile RuntimeDefault allows it"},
		{"mbind", [6]uint64{}, "Localhost(sandboxd/gpu)", `seccompProfile Localhost "sandboxd/gpu" allows it, where policy lists it`},
		{"personality", [6]uint64{0x40000}, "Localhost(sandboxd/jit)", `seccompProfile Localhost "sandboxd/jit" allows it, where policy lists it`},
		{"lsm_list_modules", [6]uint64{}, "", "a Localhost profile of one's own that allows lsm_list_modules; sandboxd profile show default prints one to begin with"},
		{"ptrace", [6]uint64{}, "", "none: sandboxd refuses it under every profile, since it reads or changes the memory, the descriptors, the limits or the priority of other processes"},
	} {
		nr, ok := seccomp.Number(s.host.Arch, row.call)
		if !ok {
			t.Fatal(row.call)
		}
		got := denied(s.host, runner.Call{Nr: nr, Args: row.args, Errno: unix.EPERM, Count: 1})
		profile := ""
		if got.Profile != nil {
			profile = got.Profile.String()
		}
		if profile != row.profile || got.Remedy != row.remedy {
			t.Errorf("%s: %q, %q", row.call, profile, got.Remedy)
		}
	}
}

// TestLastWords: what was refused, and a death for memory, are named at the end of a run's stderr, in the reply and in the stream; bytes and record have
// the program's own alone.
func TestLastWords(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	if !s.host.SeccompListener {
		t.Skip("seccomp.listener: Linux 5.19")
	}
	r := pythonRun("import socket, sys\nsys.stderr.write('no line feed')\ntry:\n    socket.socket(40)\nexcept OSError as e:\n    _return = e.errno")
	sink := &recordingSink{heard: make(chan struct{})}
	reply := s.Exec(t.Context(), r, Options{ExplainDenials: true, Sink: sink})
	mustBe(t, reply, OutcomeOK)
	_, stderr := reply.Output()
	const want = "no line feed\nsandboxd: denied: socket(AF_VSOCK"
	if !strings.HasPrefix(string(stderr), want) || !strings.HasSuffix(string(stderr), "\n") || strings.Count(string(stderr), "sandboxd: ") != 1 {
		t.Errorf("stderr is %q, want %q…", stderr, want)
	}
	if !bytes.Equal(sink.output["stderr"], stderr) {
		t.Errorf("streamed %q, answered %q", sink.output["stderr"], stderr)
	}
	if reply.Bytes.Stderr != int64(len("no line feed")) {
		t.Errorf("the program wrote %d bytes", reply.Bytes.Stderr)
	}
	plain := s.Exec(t.Context(), r, Options{})
	if _, stderr := plain.Output(); string(stderr) != "no line feed" {
		t.Errorf("nobody asked: %q", stderr)
	}
	memory := pythonRun("x = []\nwhile True:\n    x.append(bytearray(b'x') * (8 << 20))")
	memory.Limits.MemoryBytes = 96 << 20
	reply = s.Exec(t.Context(), memory, Options{})
	if reply.Outcome == OutcomeDenied {
		t.Log("no memory controller here, and policy doesn't accept that:", reply.Reasons)
		return
	}
	mustBe(t, reply, OutcomeOOM)
	if _, stderr := reply.Output(); !strings.HasPrefix(string(stderr), "sandboxd: OOMKilled: ") {
		t.Errorf("stderr is %q", stderr)
	}
}

// TestLastLines: each line that there can be.
func TestLastLines(t *testing.T) {
	sigsys := 31
	many := make([]audit.DeniedCall, mostDeniedLines+3)
	for i := range many {
		many[i] = audit.DeniedCall{Call: "bpf", Errno: "EPERM", Count: 1, Remedy: "none"}
	}
	for _, row := range []struct {
		reply Reply
		want  []string
	}{
		{Reply{Outcome: OutcomeOK}, nil},
		{Reply{Outcome: OutcomeOOM, OOMKills: 1}, []string{"sandboxd: OOMKilled: it had no more memory left; limits.memoryBytes gives more\n"}},
		{Reply{Outcome: OutcomeError, OOMKills: 2}, []string{"sandboxd: OOMKilled: 2 of its processes, and not the first; limits.memoryBytes gives more\n"}},
		{Reply{Outcome: OutcomeSignaled, Signal: &sigsys}, []string{"sandboxd: denied: it was ended by SIGSYS, for a system call that the seccomp profile kills for\n"}},
		{
			Reply{DeniedCalls: []audit.DeniedCall{{Call: "ioctl", Args: []audit.DeniedArg{{Index: 1, Value: 0x5412}}, Errno: "EPERM", Count: 3, Remedy: "ask"}}, DeniedCallsCut: true},
			[]string{"sandboxd: denied: ioctl(…, 0x5412) (EPERM, 3×); to allow it: ask\n", "sandboxd: denied: more calls than are named or counted\n"},
		},
		{
			Reply{DeniedCalls: many},
			append(slices.Repeat([]string{"sandboxd: denied: bpf() (EPERM, 1×); to allow it: none\n"}, mostDeniedLines), "sandboxd: denied: 3 calls more\n"),
		},
	} {
		if got := lastLines(row.reply); !slices.Equal(got, row.want) {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}
