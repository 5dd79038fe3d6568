package policy

import (
	"encoding/json/jsontext"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exec wraps members beside a command that is fine.
func exec(members string) string { return `{"command":{"argv":["true"]},` + members + `}` }

// command wraps members of a command beside an argv that is fine.
func command(members string) string { return `{"command":{"argv":["true"],` + members + `}}` }

func parseExec(body string) error { _, _, err := ParseExec([]byte(body)); return err }
func parseRun(body string) error  { _, _, err := ParseRun([]byte(body)); return err }
func parseDecide(body string) error {
	_, err := ParseDecide([]byte(body))
	return err
}

func TestParseFaults(t *testing.T) {
	long := strings.Repeat("x", 131072)
	tests := []struct {
		parse func(string) error
		body  string
		want  string
	}{
		// The body.
		{parseExec, ``, `not JSON: unexpected EOF at byte 0`},
		{parseExec, `null`, `null isn't a value here; leave the field out instead`},
		{parseExec, `[]`, `want an object, got a list`},
		{parseExec, `"x"`, `want an object, got a string`},
		{parseExec, `{}`, `command: missing`},
		{parseExec, `{"command":{"argv":["true"]}} {}`, `not JSON: invalid character '{' after top-level value at byte 30`},
		{parseExec, `{"command":{"argv":["true"]}}x`, `not JSON: invalid character 'x' after top-level value at byte 29`},
		{parseExec, `{"command":{"argv":["true"]`, `command: not JSON: unexpected EOF at byte 27`},

		// Keys.
		{parseExec, exec(`"securitycontext":{}`), `securitycontext: unknown field; nearest is securityContext`},
		{parseExec, exec(`"Limits":{}`), `Limits: unknown field; nearest is limits`},
		{parseExec, exec(`"securityContext":{"capabilities":{"ad":[]}}`), `securityContext.capabilities.ad: unknown field; nearest is add`},
		{parseExec, exec(`"securityContext":{"runAsUsr":1}`), `securityContext.runAsUsr: unknown field; nearest is runAsUser`},
		{parseExec, exec(`"network":{"egres":[]}`), `network.egres: unknown field; nearest is egress`},
		{parseExec, exec(`"network":{"egress":[{"action":"deny","target":"a.b","port":[1]}]}`), `network.egress[0].port: unknown field; nearest is ports`},
		{parseExec, exec(`"limits":{"timeout":1}`), `limits.timeout: unknown field; nearest is timeoutSeconds`},
		{parseExec, exec(`"caller":{"uid":0}`), `caller: unknown field, want one of sandbox, image, securityContext, network, limits, stream, explainDenials, command, resultMarker`},
		{parseExec, exec(`"inputs":{}`), `inputs: unknown field, want one of sandbox, image, securityContext, network, limits, stream, explainDenials, command, resultMarker`},
		{parseExec, `{"command":{"argv":["a"],"arg.v":1}}`, `command["arg.v"]: unknown field; nearest is argv`},
		{parseExec, `{"command":{"argv":["a"]},"command":{"argv":["b"]}}`, `command: duplicate key`},
		{parseExec, command(`"env":{"A":"1","A":"2"}`), `command.env.A: duplicate key`},
		{parseExec, exec(`"securityContext":{"privileged":false,"privileged":true}`), `securityContext.privileged: duplicate key`},
		{parseExec, exec(`"securityContext":{"seLinuxOptions":{}}`), `securityContext.seLinuxOptions: not enforced here; remove it`},
		{parseExec, exec(`"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}}`), `securityContext.appArmorProfile: not enforced here; remove it`},
		{parseExec, exec(`"securityContext":{"sysctls":[]}`), `securityContext.sysctls: not enforced here; remove it`},

		// Kinds of value.
		{parseExec, exec(`"securityContext":{"privileged":"false"}`), `securityContext.privileged: want true or false, got a string`},
		{parseExec, exec(`"securityContext":{"privileged":null}`), `securityContext.privileged: null isn't a value here; leave the field out instead`},
		{parseExec, exec(`"securityContext":{"runAsUser":"1"}`), `securityContext.runAsUser: want a whole number, got a string`},
		{parseExec, exec(`"securityContext":{"runAsUser":1.5}`), `securityContext.runAsUser: 1.5 isn't a whole number written with digits alone`},
		{parseExec, exec(`"securityContext":{"capabilities":{"add":[null]}}`), `securityContext.capabilities.add[0]: null isn't a value here; leave the field out instead`},
		{parseExec, exec(`"securityContext":{"capabilities":{"add":"ALL"}}`), `securityContext.capabilities.add: want a list, got a string`},
		{parseExec, exec(`"securityContext":{"capabilities":[]}`), `securityContext.capabilities: want an object, got a list`},
		{parseExec, exec(`"stream":1`), `stream: want true or false, got a number`},
		{parseExec, `{"command":{"argv":[["a"]]}}`, `command.argv[0]: want a string, got a list`},
		{parseExec, `{"command":{"argv":["a",null]}}`, `command.argv[1]: null isn't a value here; leave the field out instead`},
		{parseExec, `{"command":["a"]}`, `command: want an object, got a list`},
		{parseExec, command(`"env":{"0":1}`), `command.env.0: want a string, got a number`},
		{parseExec, exec(`"limits":{"cpu":"2"}`), `limits.cpu: want a number, got a string`},
		{parseExec, exec(`"limits":{"cpuSeconds":0}`), `limits.cpuSeconds: 0 is out of range 0.01..31536000`},

		// Text.
		{parseExec, "{\"command\":{\"argv\":[\"\xff\"]}}", `command.argv[0]: not JSON: invalid UTF-8 at byte 21`},
		{parseExec, `{"command":{"argv":["\ud800"]}}`, "command.argv[0]: not JSON: invalid surrogate pair `\\ud800\"]}}` in string at byte 21"},
		{parseExec, "{\"comm\xff\":1}", `not JSON: invalid UTF-8 at byte 6`},

		// The command.
		{parseExec, `{"command":{}}`, `command.argv: missing, want at least the program`},
		{parseExec, `{"command":{"argv":[]}}`, `command.argv: empty, want at least the program`},
		{parseExec, `{"command":{"argv":[""]}}`, `command.argv[0]: empty, want the program`},
		{parseExec, `{"command":{"argv":["a","b\u0000c"]}}`, `command.argv[1]: NUL at byte 1`},
		{parseExec, `{"command":{"argv":["a","` + long + `"]}}`, `command.argv[1]: 131072 bytes, at most 131071 in one string; hand long text over by stdin`},
		{parseExec, `{"command":{"argv":["a"` + strings.Repeat(`,"`+long[1:]+`"`, 8) + `]}}`,
			`command: argv and env take 1048650 bytes, at most 1048576 (a string counts with its NUL and 8 bytes of pointer); hand long text over by stdin`},
		{parseExec, command(`"env":{"":"x"}`), `command.env: a name is empty`},
		{parseExec, command(`"env":{"A=B":"x"}`), `command.env["A=B"]: the name has a =`},
		{parseExec, command(`"env":{"A":"x\u0000"}`), `command.env.A: NUL at byte 3`},
		{parseExec, command(`"env":{"A":"` + long + `"}`), `command.env.A: 131074 bytes, at most 131071 in one string; hand long text over by stdin`},
		{parseExec, command(`"cwd":"tmp"`), `command.cwd: "tmp" is relative, want an absolute path`},
		{parseExec, command(`"cwd":""`), `command.cwd: empty, want an absolute path`},
		{parseExec, command(`"cwd":"/a\u0000"`), `command.cwd: NUL at byte 2`},
		{parseExec, command(`"stdin":"a","stdinBase64":"YQ=="`), `command.stdinBase64: beside command.stdin; want one of the two`},
		{parseExec, command(`"stdinBase64":"YQ"`), `command.stdinBase64: not base64: illegal base64 data at input byte 0`},
		{parseExec, command(`"stdinBase64":3`), `command.stdinBase64: want a string of base64, got a number`},
		{parseExec, exec(`"sandbox":""`), `sandbox: empty; leave it out for a sandbox of its own`},
		{parseExec, exec(`"sandbox":"../x"`), `sandbox: "../x" isn't the id of a sandbox`},

		// Values of the security context.
		{parseExec, exec(`"securityContext":{"runAsUser":-1}`), `securityContext.runAsUser: -1 is out of range 0..2147483647`},
		{parseExec, exec(`"securityContext":{"runAsGroup":4294967295}`), `securityContext.runAsGroup: 4294967295 is out of range 0..2147483647`},
		{parseExec, exec(`"securityContext":{"runAsUser":9223372036854775808}`), `securityContext.runAsUser: 9223372036854775808 is out of range`},
		{parseExec, exec(`"securityContext":{"supplementalGroups":[5,-2]}`), `securityContext.supplementalGroups[1]: -2 is out of range 0..2147483647`},
		{parseExec, exec(`"securityContext":{"capabilities":{"drop":["ALL"],"add":["CHOWN","NETADMIN"]}}`),
			`securityContext.capabilities.add[1]: unknown capability "NETADMIN"; nearest is NET_ADMIN`},
		{parseExec, exec(`"securityContext":{"capabilities":{"drop":["all"]}}`), `securityContext.capabilities.drop[0]: unknown capability "all"; nearest is ALL`},
		{parseExec, exec(`"securityContext":{"capabilities":{"add":["CAP_ALL"]}}`), `securityContext.capabilities.add[0]: unknown capability "CAP_ALL"; nearest is ALL`},
		{parseExec, exec(`"securityContext":{"seccompProfile":{}}`), `securityContext.seccompProfile.type: missing, want one of RuntimeDefault, Localhost, Unconfined`},
		{parseExec, exec(`"securityContext":{"seccompProfile":{"type":"runtime/default"}}`),
			`securityContext.seccompProfile.type: unknown value "runtime/default", want one of RuntimeDefault, Localhost, Unconfined; nearest is RuntimeDefault`},
		{parseExec, exec(`"securityContext":{"seccompProfile":{"type":"Localhost"}}`), `securityContext.seccompProfile.localhostProfile: missing, type Localhost needs it`},
		{parseExec, exec(`"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"../a"}}`),
			`securityContext.seccompProfile.localhostProfile: "../a" isn't a file name beneath the profile directory`},
		{parseExec, exec(`"securityContext":{"seccompProfile":{"type":"Unconfined","localhostProfile":"a"}}`),
			`securityContext.seccompProfile.localhostProfile: only with type Localhost`},
		{parseExec, exec(`"securityContext":{"procMount":"unmasked"}`), `securityContext.procMount: unknown value "unmasked", want one of Default, Unmasked; nearest is Unmasked`},

		// Limits.
		{parseExec, exec(`"limits":{"timeoutSeconds":9223372036854775808}`), `limits.timeoutSeconds: 9.223372036854776e+18 is out of range 0.001..86400`},
		{parseExec, exec(`"limits":{"timeoutSeconds":1e400}`), `limits.timeoutSeconds: 1e400 is out of range`},
		{parseExec, exec(`"limits":{"timeoutSeconds":NaN}`), `limits.timeoutSeconds: not JSON: invalid character 'N' at start of value at byte 56`},
		{parseExec, exec(`"limits":{"timeoutSeconds":"NaN"}`), `limits.timeoutSeconds: want a number, got a string`},
		{parseExec, exec(`"limits":{"timeoutSeconds":0}`), `limits.timeoutSeconds: 0 is out of range 0.001..86400`},
		{parseExec, exec(`"limits":{"timeoutSeconds":-1}`), `limits.timeoutSeconds: -1 is out of range 0.001..86400`},
		{parseExec, exec(`"limits":{"timeoutSeconds":1e-300}`), `limits.timeoutSeconds: 1e-300 is out of range 0.001..86400`},
		{parseExec, exec(`"limits":{"outputBytes":1073741825}`), `limits.outputBytes: 1073741825 is out of range 1..1073741824`},
		{parseExec, exec(`"limits":{"memoryBytes":9223372036854775807}`), `limits.memoryBytes: 9.223372036854776e+18 is out of range 1..1125899906842624`},
		{parseExec, exec(`"limits":{"pids":0}`), `limits.pids: 0 is out of range 1..4194304`},
		{parseExec, exec(`"limits":{"pids":1e2}`), `limits.pids: 1e2 isn't a whole number written with digits alone`},

		// run.
		{parseRun, `{}`, `code: missing`},
		{parseRun, `{"code":3}`, `code: want a string, got a number`},
		{parseRun, `{"code":"a\u0000b"}`, `code: NUL at byte 1`},
		{parseRun, `{"code":"","language":"pyton"}`, `language: unknown value "pyton", want one of bash, node, python; nearest is python`},
		{parseRun, `{"code":"","externals":{"f":{}}}`, `externals: not supported: a program in a sandbox can't call functions of its caller; hand data over by inputs`},
		{parseRun, `{"code":"","command":{}}`, `command: unknown field, want one of sandbox, image, securityContext, network, limits, stream, explainDenials, language, code, inputs, env, cwd, timeoutSeconds, outputs`},
		{parseRun, `{"code":"","timeoutSeconds":1,"limits":{"timeoutSeconds":1}}`, `timeoutSeconds: beside limits.timeoutSeconds; want one of the two`},
		{parseRun, `{"code":"","timeoutSeconds":0}`, `timeoutSeconds: 0 is out of range 0.001..86400`},
		{parseRun, `{"code":"","outputs":{}}`, `outputs.inlineBytes: missing; leave outputs out for a list alone`},
		{parseRun, `{"code":"","outputs":{"inline":true}}`, `outputs.inline: unknown field; nearest is inlineBytes`},
		{parseRun, `{"code":"","outputs":{"inlineBytes":0}}`, `outputs.inlineBytes: 0 is out of range 1..67108864; keep the sandbox and fetch larger files from it`},
		{parseRun, `{"code":"","outputs":{"inlineBytes":67108865}}`, `outputs.inlineBytes: 67108865 is out of range 1..67108864; keep the sandbox and fetch larger files from it`},
		{parseDecide, `{"action":"run","code":"","outputs":{}}`, `outputs.inlineBytes: missing; leave outputs out for a list alone`},
		{parseExec, exec(`"outputs":{"inlineBytes":1}`), `outputs: unknown field, want one of sandbox, image, securityContext, network, limits, stream, explainDenials, command, resultMarker`},
		{parseRun, `{"code":"","cwd":"x"}`, `cwd: "x" is relative, want an absolute path`},
		{parseRun, `{"code":"","env":{"A=":"x"}}`, `env["A="]: the name has a =`},
		{parseRun, `{"code":"","inputs":{},"inputs":{}}`, `inputs: duplicate key`},
		{parseRun, `{"code":"","inputs":NaN}`, `inputs: not JSON: invalid character 'N' at start of value at byte 20`},
		{parseRun, "{\"code\":\"\",\"inputs\":\"\xff\"}", `inputs: not UTF-8`},
		{parseRun, `{"code":"","inputs":` + strings.Repeat("[", 901) + strings.Repeat("]", 901) + `}`, `inputs: more than 900 levels deep`},
		{parseRun, `{"code":"","inputs":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, `inputs[0]` + strings.Repeat(`.0`, 14) + `…: not JSON: exceeded max depth at byte 10019`},
		{parseRun, `{"code":"","inputs":{"a":[1,-` + strings.Repeat("9", 4301) + `]}}`, `inputs: an integer of 4301 digits at "/a/1", at most 4300`},

		// decide.
		{parseDecide, `{}`, `action: missing, want one of exec, file, run`},
		{parseDecide, `{"Action":"exec"}`, `Action: unknown field; nearest is action`},
		{parseDecide, `{"action":"exce","command":{"argv":["a"]}}`, `action: unknown value "exce", want one of exec, file, run; nearest is exec`},
		{parseDecide, `{"action":"file","file":{"operation":"read","path":"a"}}`, `sandbox: missing: a file is in a sandbox that exists`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"raed","path":"a"}}`, `file.operation: unknown value "raed", want one of delete, list, mode, move, read, stat, write; nearest is read`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"read","path":""}}`, `file.path: empty, want a path in the sandbox`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"read","path":"a\u0000b"}}`, `file.path: NUL at byte 1`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"read","path":"a","mode":1}}`, `file.mode: only write and mode have it`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"mode","path":"a"}}`, `file.mode: missing, want the permission bits`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"mode","path":"a","mode":2541}}`, `file.mode: 04755, want permission bits, 0..0777`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"list","path":"a","parents":true}}`, `file.parents: only write has it`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"list","path":"a","to":"b"}}`, `file.to: only move has it`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"move","path":"a","to":"b"}}`, `file.follow: missing: move is for those that follow links`},
		{parseDecide, `{"action":"file","sandbox":"b","file":{"operation":"move","path":"a","follow":true}}`, `file.to: empty, want a path in the sandbox`},
		{parseDecide, `{"action":"network"}`, `action: unknown value "network", want one of exec, file, run`},
		{parseDecide, `{"action":"exec","code":""}`, `code: unknown field, want one of action, sandbox, image, securityContext, network, limits, stream, explainDenials, command, resultMarker`},
		{parseDecide, `{"action":"run","code":"","code":""}`, `code: duplicate key`},
		{parseDecide, `{"action":"run"}`, `code: missing`},
	}
	for _, test := range tests {
		err := test.parse(test.body)
		name := test.body[:min(len(test.body), 120)]
		var fault *FieldError
		if !errors.As(err, &fault) {
			t.Errorf("%s: got %v, want a *FieldError %q", name, err, test.want)
		} else if got := fault.Error(); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
	}
}

func TestParseExec(t *testing.T) {
	got, options, err := ParseExec([]byte(`{
		"sandbox": "s-1",
		"command": {"argv": ["cat", ""], "env": {"A": "1=2", "B": ""}, "cwd": "/tmp", "stdinBase64": "AP8="},
		"securityContext": {"runAsUser": 0, "capabilities": {"add": ["CAP_NET_RAW", "CHOWN", "NET_RAW"], "drop": ["ALL", "KILL"]}, "privileged": false},
		"network": {"egress": [{"action": "allow", "target": "*.Example.COM", "ports": [443]}]},
		"limits": {"timeoutSeconds": 1.5, "memoryBytes": 1125899906842624},
		"resultMarker": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Request{
		Action: ActionExec, Sandbox: "s-1",
		Command: Command{Argv: []string{"cat", ""}, Env: map[string]string{"A": "1=2", "B": ""}, Cwd: "/tmp", Stdin: []byte{0, 0xff}},
		SecurityContext: SecurityContext{RunAsUser: new(int64(0)), Privileged: new(false),
			Capabilities: &Capabilities{Add: []string{"CHOWN", "NET_RAW"}, Drop: []string{"ALL"}}},
		Network: NetworkSpec{Egress: []EgressRule{{Action: "allow", Target: "*.example.com", Ports: []int{443}}}},
		Limits:  Limits{TimeoutSeconds: 1.5, MemoryBytes: 1 << 50},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if want := (ExecOptions{ResultMarker: true, Stream: true}); options != want {
		t.Errorf("options are %+v, want %+v", options, want)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("what was parsed doesn't validate: %v", err)
	}
}

func TestParseRun(t *testing.T) {
	const inputs = `{"b": 1.0, "a" : "\ud800", "a":12345678901234567890123, "n": null}`
	got, _, err := ParseRun([]byte(`{"code": "\ufeff\ufeffprint(1)", "inputs": ` + inputs + ` , "timeoutSeconds": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Request{Action: ActionRun, Limits: Limits{TimeoutSeconds: 2},
		Program: Program{Language: "python", Code: "\ufeffprint(1)", Inputs: []byte(inputs)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	decided, err := ParseDecide([]byte(`{"code": "\ufeff\ufeffprint(1)", "inputs": ` + inputs + ` , "timeoutSeconds": 2, "action": "run"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decided); diff != "" {
		t.Errorf("decide (-want +got):\n%s", diff)
	}
}

func TestParseRunInputs(t *testing.T) {
	deep := strings.Repeat("[", 900) + strings.Repeat("]", 900)
	for _, inputs := range []string{`null`, `0`, `""`, `[]`, `-0.0`, deep, `[` + strings.Repeat("9", 4300) + `]`, `1` + strings.Repeat("0", 5000) + `.0`, `{"a":null}`,
		`"` + strings.Repeat("x", 4<<20) + `"`, `[0` + strings.Repeat(",0", 1<<20) + `]`} {
		got, _, err := ParseRun([]byte(`{"inputs":` + inputs + `,"code":""}`))
		if err != nil {
			t.Errorf("%.40s: %v", inputs, err)
		} else if string(got.Program.Inputs) != inputs {
			t.Errorf("%.40s came back as %.40s", inputs, got.Program.Inputs)
		}
	}
	got, _, err := ParseRun([]byte(`{"code":""}`))
	if err != nil || string(got.Program.Inputs) != "{}" {
		t.Errorf("no inputs: got %q and %v, want {}", got.Program.Inputs, err)
	}
	got, _, err = ParseRun([]byte(`{"env":{"inputs":"x"},"code":""}`))
	if err != nil || got.Program.Env["inputs"] != "x" {
		t.Errorf("a variable called inputs: got %v and %v", got.Program.Env, err)
	}
}

func TestCheckPythonJSON(t *testing.T) {
	for inputs, want := range map[string]string{
		`{"a":[1]}`: "", " 1 ": "",
		"":         "inputs: not JSON: EOF",
		"1 2":      "inputs: more than one JSON value",
		"[1":       "inputs: not JSON: unexpected EOF at byte 2",
		"Infinity": "inputs: not JSON: invalid character 'I' at start of value at byte 0",
	} {
		got := ""
		if err := CheckPythonJSON("inputs", jsontext.Value(inputs)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", inputs, got, want)
		}
	}
	for inputs, want := range map[string]bool{"[1": true, "1 2": true, "\"\xff\"": true, "": true, strings.Repeat("[", 901): false, strings.Repeat("9", 4301): false} {
		if got := errors.Is(CheckPythonJSON("inputs", jsontext.Value(inputs)), ErrNotJSON); got != want {
			t.Errorf("%.20q isn't JSON: %t, want %t", inputs, got, want)
		}
	}
}

func TestBoundsAreReached(t *testing.T) {
	largest := strings.Repeat("x", longestArgument)
	for _, body := range []string{
		`{"command":{"argv":["a","` + largest + `"]}}`,
		exec(`"limits":{"timeoutSeconds":86400,"outputBytes":1073741824,"pids":4194304,"cpu":0.01,"cpuSeconds":0.01,"openFiles":8,"fileBytes":1}`),
		exec(`"securityContext":{"runAsUser":2147483647,"supplementalGroups":[0]}`),
	} {
		if err := parseExec(body); err != nil {
			t.Errorf("%.80s: %v", body, err)
		}
	}
}

// A request from a command line meets the same rules.
func TestValidate(t *testing.T) {
	fine := Request{Action: ActionExec, Command: Command{Argv: []string{"true"}}}
	tests := []struct {
		change func(*Request)
		want   string
	}{
		{func(r *Request) {}, ""},
		{func(r *Request) { r.Action = "" }, `action: unknown value "", want one of exec, file, run`},
		{func(r *Request) { r.Action = ActionNetwork }, `action: unknown value "network", want one of exec, file, run`},
		{func(r *Request) { r.Action = ActionRun }, `language: unknown value "", want one of bash, node, python`},
		{func(r *Request) { r.Command.Argv[0] = "\xff" }, `command.argv[0]: not UTF-8`},
		{func(r *Request) { r.Limits.Pids = -1 }, `limits.pids: -1 is out of range 1..4194304`},
		{func(r *Request) { r.Network.DefaultAction = "alow" }, `network.defaultAction: unknown value "alow", want one of deny, allow; nearest is allow`},
		{func(r *Request) { r.Network.Egress = []EgressRule{{Action: "allow", Target: "A.b"}} }, `network.egress[0].target: not in its canonical form; nearest is a.b`},
		{func(r *Request) { r.Sandbox = strings.Repeat("a", 129) }, `sandbox: 129 bytes, at most 128`},
	}
	for _, test := range tests {
		request := fine
		request.Command.Argv = []string{"true"}
		test.change(&request)
		got := ""
		if err := request.Validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
