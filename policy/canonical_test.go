package policy

import (
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{SecurityContext{}, `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"privileged":false,"procMount":"Default","readOnlyRootFilesystem":true,` +
			`"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		{SecurityContext{RunAsUser: new(int64(5)), SupplementalGroups: []int64{9, 3, 9}, Capabilities: &Capabilities{Add: []string{"CAP_sys_time", "KILL", "kill"}, Drop: []string{"KILL", "ALL"}}},
			`{"allowPrivilegeEscalation":false,"capabilities":{"add":["KILL","SYS_TIME"],"drop":["ALL"]},"privileged":false,"procMount":"Default","readOnlyRootFilesystem":true,` +
				`"runAsNonRoot":true,"runAsUser":5,"seccompProfile":{"type":"RuntimeDefault"},"supplementalGroups":[3,9]}`},
		{NetworkSpec{}, `{"defaultAction":"deny"}`},
		{NetworkSpec{Egress: []EgressRule{{Action: "allow", Target: "B.test", Ports: []int{443, 80, 443}}, {Action: "deny", Target: "a.test"}}},
			`{"defaultAction":"deny","egress":[{"action":"allow","ports":[80,443],"target":"b.test"},{"action":"deny","target":"a.test"}]}`},
		{Limits{}, `{"openFiles":1024,"outputBytes":1048576,"pids":512,"timeoutSeconds":60}`},
		{Limits{TimeoutSeconds: 0.1, CPU: 1.5, CPUSeconds: 2}, `{"cpu":1.5,"cpuSeconds":2,"openFiles":1024,"outputBytes":1048576,"pids":512,"timeoutSeconds":0.1}`},
		{Command{Argv: []string{"a"}, Env: map[string]string{"B": "é", "A": "<"}, Stdin: []byte{0xff}}, `{"argv":["a"],"cwd":"","env":{"A":"<","B":"é"},"stdin":"/w=="}`},
		{Command{}, `{"argv":[],"cwd":"","env":{},"stdin":""}`},
		{Program{Inputs: jsontext.Value(`{"a":1,"a":"\ud800"}`)}, `{"code":"","cwd":"","env":{},"inputs":{"bytes":20,"digest":"sha256:01094dd074f47723a1dfef41d32a13dd1cd59914b8f1ada367e1a1cb99295f3c"},"language":""}`},
		{Decision{Accept: []string{"b", "a", "b"}, Reasons: []Reason{{Rule: "r", Change: &Change{Op: "set", Field: "f", Value: jsontext.Value(`1`)}}}},
			`{"accept":["a","b"],"allow":false,"effective":{"limits":{"openFiles":1024,"outputBytes":1048576,"pids":512,"timeoutSeconds":60},"network":{"defaultAction":"deny"},` +
				`"onOutputLimit":"","securityContext":` + string(Canonical(SecurityContext{})) + `},"id":"","labels":{},"reasons":[{"change":{"field":"f","op":"set","value":"1"},"field":"","message":"","rule":"r"}],"revision":""}`},
		{Verdict{Tier: TierFull, Rows: []Row{{Control: "a", Want: "1", Got: "2", Evidence: EvidenceProbe}}},
			`{"degraded":[],"rows":[{"control":"a","evidence":"probe","got":"2","held":false,"want":"1"}],"tier":"full"}`},
		{map[string]int64{"b": 1<<63 - 1, "a": -1}, `{"a":-1,"b":9223372036854775807}`},
	} {
		if got := string(Canonical(test.value)); got != test.want {
			t.Errorf("%T:\n got %s\nwant %s", test.value, got, test.want)
		}
	}
}

// Two ways to say the same have one digest; one field changed, another.
func TestDigestOfRequest(t *testing.T) {
	base := func() Request {
		return Request{Action: ActionExec, Caller: Caller{UID: 1, GID: 2, PID: 3, Via: "socket"}, Command: Command{Argv: []string{"a"}}}
	}
	if a, b := base(), base(); Digest(a) != Digest(b) {
		t.Error("the digest of equal requests differs")
	}
	asked := base()
	asked.SecurityContext, asked.Limits = SecurityContext{Privileged: new(false)}, Limits{Pids: 512}
	asked.Network, asked.Command.Env = NetworkSpec{DefaultAction: "deny"}, map[string]string{}
	if Digest(asked) != Digest(base()) {
		t.Errorf("asking for the default changes the digest:\n%s\n%s", Canonical(asked), Canonical(base()))
	}
	seen := map[string]int{Digest(base()): -1}
	for i, change := range []func(*Request){
		func(r *Request) { r.Action = ActionRun },
		func(r *Request) { r.Caller.UID = 0 },
		func(r *Request) { r.Caller.GID = 0 },
		func(r *Request) { r.Caller.PID = 0 },
		func(r *Request) { r.Caller.Via = "cli" },
		func(r *Request) { r.Sandbox = "x" },
		func(r *Request) { r.SecurityContext.Privileged = new(true) },
		func(r *Request) { r.SecurityContext.RunAsUser = new(int64(0)) },
		func(r *Request) { r.Network.DefaultAction = "allow" },
		func(r *Request) { r.Limits.Pids = 1 },
		func(r *Request) { r.Limits.MemoryBytes = 1 },
		func(r *Request) { r.Command.Argv = []string{"a", ""} },
		func(r *Request) { r.Command.Argv = []string{"b"} },
		func(r *Request) { r.Command.Env = map[string]string{"A": ""} },
		func(r *Request) { r.Command.Cwd = "/" },
		func(r *Request) { r.Command.Stdin = []byte{0} },
		func(r *Request) { r.Program.Code = "x" },
		func(r *Request) { r.Program.Language = "x" },
		func(r *Request) { r.Program.Inputs = jsontext.Value("{}") },
		func(r *Request) { r.Program.Inputs = jsontext.Value("{ }") },
		func(r *Request) { r.Program.Bulk = new(BulkOf([]byte("{  }"))) },
		func(r *Request) { r.Program.Env = map[string]string{"A": ""} },
		func(r *Request) { r.Program.Cwd = "/" },
	} {
		changed := base()
		change(&changed)
		digest := Digest(changed)
		if other, twice := seen[digest]; twice {
			t.Errorf("changes %d and %d have one digest", i, other)
		}
		seen[digest] = i
	}
}

// The canonical form is a fixed point, and the parsers read it back as the same value.
func TestCanonicalReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		context := someContext.Draw(t, "context")
		text := Canonical(context)
		again, err := ParseSecurityContext(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if string(Canonical(again)) != string(text) {
			t.Fatalf("%s became %s", text, Canonical(again))
		}
		network := Canonical(someNetwork.Draw(t, "network"))
		if spec, err := ParseNetwork(network); err != nil || string(Canonical(spec)) != string(network) {
			t.Fatalf("%s became %s, %v", network, Canonical(spec), err)
		}
		limits := Canonical(someLimits.Draw(t, "limits"))
		if parsed, err := ParseLimits(limits); err != nil || string(Canonical(parsed)) != string(limits) {
			t.Fatalf("%s became %s, %v", limits, Canonical(parsed), err)
		}
	})
}

// A defaulted value shares nothing with the one it was made from.
func TestDefaultedIsACopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		context := someContext.Draw(t, "context")
		before, err := json.Marshal(context)
		if err != nil {
			t.Fatal(err)
		}
		copied := context.Defaulted()
		for _, flag := range []*bool{copied.Privileged, copied.AllowPrivilegeEscalation, copied.ReadOnlyRootFilesystem, copied.RunAsNonRoot} {
			*flag = !*flag
		}
		for _, id := range []*int64{copied.RunAsUser, copied.RunAsGroup} {
			if id != nil {
				*id = 77
			}
		}
		for i := range copied.SupplementalGroups {
			copied.SupplementalGroups[i] = 77
		}
		copied.Capabilities.Drop[0], copied.SeccompProfile.Type, *copied.ProcMount = "X", "X", "X"
		if after, err := json.Marshal(context); err != nil || string(after) != string(before) {
			t.Fatalf("%s became %s", before, after)
		}
	})
}

func TestVerdictSummary(t *testing.T) {
	verdict := Verdict{Tier: TierNet, Rows: []Row{{Held: true, Evidence: EvidenceKernel}, {Held: true, Evidence: EvidenceKernel}, {Held: true, Evidence: EvidenceReport}}}
	got, err := json.Marshal(verdict.Summary())
	want := `{"held":true,"tier":"net","evidence":{"kernel":2,"probe":0,"report":1},"degraded":[],"digest":"` + Digest(verdict) + `"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s and %v, want %s", got, err, want)
	}
	if (Verdict{}).Summary().Held {
		t.Error("the zero verdict holds")
	}
}

func TestCapabilityNumbers(t *testing.T) {
	for name, want := range map[string]int{"CHOWN": 0, "NET_ADMIN": 12, "SYS_ADMIN": 21, "SETFCAP": 31, "BPF": 39, "CHECKPOINT_RESTORE": 40} {
		if got, known := CapabilityNumber(name); got != want || !known {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if _, known := CapabilityNumber(CapabilityAll); known || len(CapabilityNames()) != 41 {
		t.Error("ALL has a number, or there aren't 41 names")
	}
}
