package execd

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

func pythonRun(code string) policy.Request {
	return policy.Request{
		Action: policy.ActionRun, Caller: Self(), Limits: policy.Limits{TimeoutSeconds: 20},
		Program: policy.Program{Language: "python", Code: code, Inputs: []byte(`{"n": 3}`)},
	}
}

func TestRun(t *testing.T) {
	s := start(t, testConfig(t))
	large := strings.Repeat("x", 300_000) // more than a pipe holds
	for _, row := range []struct {
		name, code       string
		want             Outcome
		value, how, text string
	}{
		{"a value", "print('hi')\n_return = {'double': inputs['n'] * 2}", OutcomeOK, `{"double": 6}`, "value", "hi\n"},
		{"none", "pass", OutcomeOK, "null", "value", ""},
		{"repr", "_return = {(1, 2): 3}", OutcomeOK, `"{(1, 2): 3}"`, "repr", ""},
		{"not a number", "_return = [float('nan')]", OutcomeOK, "[null]", "replaced", ""},
		{"exception keeps the value", "_return = 1\nraise ValueError('x')", OutcomeError, "1", "value", ""},
		{"hard exit", "import os\n_return = 1\nos._exit(0)", OutcomeOK, "null", "none", ""},
		{"large", "_return = 'x' * 300000", OutcomeOK, `"` + large + `"`, "value", ""},
		{"too large", "_return = 'x' * 2000000", OutcomeOK, "null", "failed", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			reply := s.Exec(t.Context(), pythonRun(row.code), Options{})
			mustBe(t, reply, row.want)
			stdout, _ := reply.Output()
			value := strings.ReplaceAll(string(reply.ReturnValue), " ", "")
			if value != strings.ReplaceAll(row.value, " ", "") || row.how != "" && reply.ReturnValueHow != row.how || string(stdout) != row.text {
				t.Errorf("value %.200s, how %q (%s), stdout %q; want %.200s, %q, %q",
					reply.ReturnValue, reply.ReturnValueHow, reply.ReturnValueReason, stdout, row.value, row.how, row.text)
			}
			if _, err := reply.Encode(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRunLeavesNobodyWaiting: a program that keeps the channel, or fills it, is killed on time and the answer comes.
func TestRunLeavesNobodyWaiting(t *testing.T) {
	s := start(t, testConfig(t))
	for name, row := range map[string]struct{ code, value, how string }{
		"sleeps":              {"import time\n_return = 1\ntime.sleep(60)", "1", "value"},
		"leaves a child":      {"import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\ntime.sleep(60)", "null", ""}, // told, or killed before the interpreter could be
		"doesn't want to end": {"import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass", "null", "none"},
	} {
		r := pythonRun(row.code)
		r.Limits.TimeoutSeconds = 2
		began := time.Now()
		reply := s.Exec(t.Context(), r, Options{})
		mustBe(t, reply, OutcomeTimeout)
		if string(reply.ReturnValue) != row.value || row.how != "" && reply.ReturnValueHow != row.how || !reply.TreeEmpty || *reply.ExitCode != 124 {
			t.Errorf("%s: value %s, how %q, reason %q, exit code %d, tree empty %t, stderr %q", name, reply.ReturnValue, reply.ReturnValueHow, reply.ReturnValueReason, *reply.ExitCode, reply.TreeEmpty, *reply.Stderr)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

func TestResultMarker(t *testing.T) {
	s := start(t, testConfig(t))
	const line = "__DR_SANDBOX_RESULT__:"
	for _, row := range []struct {
		name, script            string
		marker                  bool
		stdout, value, how, why string
	}{
		{"taken", "printf 'a\\n" + line + `{"x": 1.0}` + "\\nb\\n'", true, "a\nb", `{"x":1.0}`, "marker", ""},
		{"last one wins", "printf '" + line + "1\\n" + line + "2\\n'", true, line + "1", "2", "marker", ""},
		{"none", "echo plain", true, "plain\n", "null", "none", ""},
		{"not asked for", "echo " + line + "1", false, line + "1\n", "", "", ""},
		{"too deep", fmt.Sprintf("printf '%s'; head -c 2000 /dev/zero | tr '\\0' '['; echo", line), true, "", "null", "", ""},
	} {
		reply := s.Exec(t.Context(), shell(row.script), Options{ResultMarker: row.marker})
		mustBe(t, reply, OutcomeOK)
		stdout, _ := reply.Output()
		if row.name == "too deep" {
			if string(reply.ReturnValue) != "null" {
				t.Errorf("%s: %s %s", row.name, reply.ReturnValue, reply.ReturnValueReason)
			}
			continue
		}
		value := strings.ReplaceAll(string(reply.ReturnValue), " ", "")
		if string(stdout) != row.stdout || value != row.value || reply.ReturnValueHow != row.how {
			t.Errorf("%s: stdout %q, value %s, how %q; want %q, %s, %q", row.name, stdout, reply.ReturnValue, reply.ReturnValueHow, row.stdout, row.value, row.how)
		}
	}
	r := shell("echo " + line + "1; head -c 5000 /dev/zero")
	r.Limits.OutputBytes = 1000
	if reply := s.Exec(t.Context(), r, Options{ResultMarker: true}); reply.ReturnValueHow != "marker" || reply.ReturnValueReason == "" {
		t.Errorf("after a cut: how %q, reason %q", reply.ReturnValueHow, reply.ReturnValueReason)
	}
	r = shell("echo; printf " + line + "; head -c 5000 /dev/zero | tr '\\0' 1")
	r.Limits.OutputBytes = 1000
	reply := s.Exec(t.Context(), r, Options{ResultMarker: true})
	if stdout, _ := reply.Output(); reply.ReturnValueHow != "none" || string(reply.ReturnValue) != "null" || reply.ReturnValueReason == "" || len(stdout) != 1000 {
		t.Errorf("cut in its value: how %q, value %.50s, reason %q, %d bytes of stdout", reply.ReturnValueHow, reply.ReturnValue, reply.ReturnValueReason, len(stdout))
	}
}

// TestRunOtherLanguages: the same door, for bash and Node.
func TestRunOtherLanguages(t *testing.T) {
	s := start(t, testConfig(t))
	for _, row := range []struct {
		name, language, code string
		want                 Outcome
		exit                 int
		value, how           string
		stdout, stderr       string
	}{
		{"bash", "bash", "echo out; echo err >&2\nprintf '{\"got\": %s}' \"$(cat <&$SANDBOXD_INPUTS_FD)\" >&$SANDBOXD_RESULT_FD", OutcomeOK, 0, `{"got": {"n": 3}}`, "value", "out\n", "err\n"},
		{"bash without a value", "bash", "exit 3", OutcomeError, 3, "null", "none", "", ""},
		{"bash, its last status", "bash", "true\nfalse", OutcomeError, 1, "null", "none", "", ""},
		{"bash, no JSON", "bash", "echo nope >&$SANDBOXD_RESULT_FD", OutcomeOK, 0, "null", "failed", "", ""},
		{"bash, a line number", "bash", "true\nno-such-command", OutcomeError, 127, "null", "none", "", "line 2: no-such-command: command not found"},
		{"bash reads nothing", "bash", "cat", OutcomeOK, 0, "null", "none", "", ""},
		{"bash, no start-up files and no code left open", "bash", "ls /proc/$$/fd | wc -l", OutcomeOK, 0, "null", "none", "5\n", ""},
		{"bash at its limit", "bash", "echo 1 >&$SANDBOXD_RESULT_FD; sleep 60", OutcomeTimeout, 124, "1", "value", "", ""},
		{"node", "node", "console.log('out'); _return = {double: inputs.n * 2}", OutcomeOK, 0, `{"double":6}`, "value", "out\n", ""},
		{"node, later", "node", "setTimeout(() => { _return = [1, NaN, '\\ud800'] }, 10)", OutcomeOK, 0, `[1,null,"\ud800"]`, "value", "", ""},
		{"node, exception", "node", "_return = 1\nthrow new Error('no')", OutcomeError, 1, "1", "value", "", "<sandbox>:2\nthrow new Error('no')"},
		{"node, exit", "node", "_return = 1; process.exit(4)", OutcomeError, 4, "1", "value", "", ""},
		{"node, BigInt", "node", "_return = 10n ** 30n", OutcomeOK, 0, `"1000000000000000000000000000000n"`, "repr", "", ""},
		{"node, modules", "node", "_return = require('path').join('a', 'b') + process.argv.length", OutcomeOK, 0, `"a/b1"`, "value", "", ""},
		{"node, gone", "node", "process.kill(process.pid, 'SIGKILL')", OutcomeSignaled, 137, "null", "none", "", ""},
		{"node at its limit", "node", "_return = 2; setInterval(() => {}, 1000)", OutcomeTimeout, 124, "2", "value", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := exec.LookPath("/usr/bin/" + row.language); err != nil {
				t.Skipf("no /usr/bin/%s, which sandboxes are shown", row.language)
			}
			r := pythonRun(row.code)
			r.Program.Language = row.language
			if row.want == OutcomeTimeout {
				r.Limits.TimeoutSeconds = 2
			}
			reply := s.Exec(t.Context(), r, Options{})
			stdout, stderr := reply.Output()
			mustBe(t, reply, row.want)
			if *reply.ExitCode != row.exit || string(reply.ReturnValue) != row.value || reply.ReturnValueHow != row.how ||
				string(stdout) != row.stdout || !strings.Contains(string(stderr), row.stderr) || row.stderr == "" && len(stderr) > 0 {
				t.Errorf("exit %d, value %s (%s: %s), stdout %q, stderr %q", *reply.ExitCode, reply.ReturnValue, reply.ReturnValueHow, reply.ReturnValueReason, stdout, stderr)
			}
		})
	}
}
