package script

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json/jsontext"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// ending is how a program ended.
type ending struct {
	python.Result
	exit           int
	stdout, stderr string
}

// run runs a program with the language's own interpreter, unconfined: what is tested is the invocation and the driver.
func run(t *testing.T, language, code, inputs string) ending {
	t.Helper()
	program := map[string]string{policy.LanguageBash: "bash", policy.LanguageNode: "node"}[language]
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip("no " + program)
	}
	argv, env, extra, _, result, err := Invocation(policy.Program{Language: language, Code: code, Inputs: jsontext.Value(inputs)}, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + cmd.Dir}, env...)
	cmd.ExtraFiles, cmd.WaitDelay = extra, time.Second
	cmd.Stdin = strings.NewReader("of stdin\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, file := range extra {
		file.Close()
	}
	value := make(chan python.Result, 1)
	go func() { value <- ReadResult(language, result, 1<<20) }()
	_ = cmd.Wait() // the status is looked at below
	if ctx.Err() != nil {
		t.Fatalf("the program didn't end; stderr: %s", &stderr)
	}
	if err := result.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	return ending{<-value, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

type row struct {
	name, code, inputs string
	value, how         string
	exit               int
	stdout, stderr     string // contained in it
}

func check(t *testing.T, language string, rows []row) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.inputs == "" {
				row.inputs = "{}"
			}
			got := run(t, language, row.code, row.inputs)
			if string(got.Value) != row.value || got.How != row.how || got.exit != row.exit || got.stdout != row.stdout || !strings.Contains(got.stderr, row.stderr) ||
				row.stderr == "" && got.stderr != "" {
				t.Errorf("%+v, value %s, want %+v", got, got.Value, row)
			}
		})
	}
}

func TestBash(t *testing.T) {
	large := strings.Repeat("x", 300_000)
	check(t, policy.LanguageBash, []row{
		{"a value", `printf '{"a": %d}' 1 >&$SANDBOXD_RESULT_FD`, "", `{"a": 1}`, "value", 0, "", ""},
		{"in pieces", "for i in '[1,' '2]' ' '; do printf %s \"$i\" >&$SANDBOXD_RESULT_FD; done", "", `[1,2]`, "value", 0, "", ""},
		{"none", "echo hi", "", "null", "none", 0, "hi\n", ""},
		{"blanks alone", "echo >&$SANDBOXD_RESULT_FD", "", "null", "none", 0, "", ""},
		{"not JSON", "echo hello >&$SANDBOXD_RESULT_FD", "", "null", "failed", 0, "", ""},
		{"two values", "echo 1 2 >&$SANDBOXD_RESULT_FD", "", "null", "failed", 0, "", ""},
		{"half a value", "printf '{\"a\":' >&$SANDBOXD_RESULT_FD", "", "null", "failed", 0, "", ""},
		{"too large", "head -c 2000000 /dev/zero | tr '\\0' 1 >&$SANDBOXD_RESULT_FD", "", "null", "failed", 0, "", ""},
		{"the inputs as they came", `cat <&$SANDBOXD_INPUTS_FD`, `{"b": 1.0, "b": "` + large + `"}`, "null", "none", 0, `{"b": 1.0, "b": "` + large + `"}`, ""},
		{"the status of its last command", "true; false", "", "null", "none", 1, "", ""},
		{"exit with a value", "echo 3 >&$SANDBOXD_RESULT_FD; exit 7", "", "3", "value", 7, "", ""},
		{"its standard input is its own", "read line; echo \"$line\"", "", "null", "none", 0, "of stdin\n", ""},
		{"quotes and line ends", "x='a\n\"b\" $c \\ '\necho \"$x\"\n\n", "", "null", "none", 0, "a\n\"b\" $c \\ \n", ""},
		{"the line of an error", "true\n\nno-such-command\n", "", "null", "none", 127, "", "sandbox: line 3: no-such-command"},
		{"a syntax error", "echo a\nif\n", "", "null", "none", 2, "a\n", "sandbox: eval: line 3: syntax error"},
		{"nothing", "", "", "null", "none", 0, "", ""},
		{"no start-up file", "echo \"$0 $# ${BASH_ENV-unset} $-\" | tr -d hB", "", "null", "none", 0, "sandbox 0 unset c\n", ""},
		{"the code's descriptor is closed", "{ true <&3; } 2>/dev/null || echo closed", "", "null", "none", 0, "closed\n", ""},
		{"a child writes it", "bash -c 'echo [1] >&$SANDBOXD_RESULT_FD'", "", "[1]", "value", 0, "", ""},
	})
}

func TestNode(t *testing.T) {
	check(t, policy.LanguageNode, []row{
		{"a value", "_return = {double: inputs.n * 2}", `{"n": 21}`, `{"double":42}`, "value", 0, "", ""},
		{"null until it is set", "1 + 1", "", "null", "value", 0, "", ""},
		{"set later", "setTimeout(() => { _return = 'late' }, 1)", "", `"late"`, "value", 0, "", ""},
		{"after an exception", "_return = 1\nthrow new Error('x')", "", "1", "value", 1, "", "<sandbox>:2"},
		{"after process.exit", "_return = [1]; process.exit(3)", "", "[1]", "value", 3, "", ""},
		{"a BigInt", "_return = 12n", "", `"12n"`, "repr", 0, "", ""},
		{"a cycle", "const a = {}; a.a = a; _return = a", "", `"<ref *1> { a: [Circular *1] }"`, "repr", 0, "", ""},
		{"undefined", "_return = undefined", "", `"undefined"`, "repr", 0, "", ""},
		{"what can't be shown", "_return = {toJSON() { throw 1 }, [Symbol.for('nodejs.util.inspect.custom')]() { throw 2 }}", "", "null", "failed", 0, "", ""},
		{"it breaks what the driver uses", "_return = 1; JSON.stringify = null; require('fs').writeSync = null; require('util').inspect = null", "", "1", "value", 0, "", ""},
		{"the modules of node", "console.log(require('path').join('a', 'b'))", "", "null", "value", 0, "a/b\n", ""},
		{"arguments", "console.log(process.argv.length, __filename)", "", "null", "value", 0, "1 [eval]\n", ""},
		{"a syntax error", "let = = 1", "", "null", "value", 1, "", "<sandbox>:1"},
		{"beyond ASCII", "_return = inputs.s + '\U0001F600'", `{"s": "é"}`, "\"é\U0001F600\"", "value", 0, "", ""},
		{"half of a pair", "_return = inputs", `"\ud800"`, `"\ud800"`, "value", 0, "", ""},
		{"large", "_return = 'x'.repeat(900000).length", "", "900000", "value", 0, "", ""},
		{"too large", "_return = 'x'.repeat(2000000)", "", "null", "failed", 0, "", ""},
		{"its standard input is its own", "process.stdout.write(require('fs').readFileSync(0))", "", "null", "value", 0, "of stdin\n", ""},
	})
}

// TestUnknownLanguage: nothing is left open for it.
func TestUnknownLanguage(t *testing.T) {
	for _, language := range []string{"", policy.LanguagePython, "perl"} {
		if _, _, extra, _, result, err := Invocation(policy.Program{Language: language}, 3); err == nil || extra != nil || result != nil {
			t.Errorf("%q: %v %v %v", language, extra, result, err)
		}
	}
}

// contents reads descriptors as a child would.
func contents(t *testing.T, files []*os.File) (all []string) {
	t.Helper()
	for _, file := range files {
		data, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<30))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("x"), 0); err == nil {
			t.Errorf("%s can be written to", file.Name())
		}
		all = append(all, string(data))
		file.Close()
	}
	return all
}

// FuzzInvocation: code and inputs come whole, byte for byte, in sealed files; none of either is in an argument or a variable.
func FuzzInvocation(f *testing.F) {
	f.Add("echo hi", "{}")
	f.Add("", "")
	f.Add("'\"$(x)\n", `{"a": "\u0000"}`)
	f.Fuzz(func(t *testing.T, code, inputs string) {
		for _, language := range []string{policy.LanguageBash, policy.LanguageNode} {
			same, _, one, _, unused, err := Invocation(policy.Program{Language: language, Code: "same", Inputs: jsontext.Value("{}")}, 3)
			if err != nil {
				t.Fatal(err)
			}
			contents(t, one[:2])
			one[2].Close()
			unused.Close()
			argv, env, extra, _, result, err := Invocation(policy.Program{Language: language, Code: code, Inputs: jsontext.Value(inputs)}, 3)
			if err != nil {
				t.Fatal(err)
			}
			result.Close()
			got := contents(t, extra[:2])
			extra[2].Close()
			if fmt.Sprint(argv) != fmt.Sprint(same) {
				t.Errorf("%q: the arguments depend on the program", argv)
			}
			switch language {
			case policy.LanguageBash:
				if got[0] != code || got[1] != inputs || len(env) != 2 {
					t.Errorf("%q, want %q and %q", got, code, inputs)
				}
			case policy.LanguageNode:
				job := []byte(got[1])
				if got[0] != driver || len(job) < 8 {
					t.Fatalf("%q", got)
				}
				size := binary.BigEndian.Uint64(job)
				if int(size) != len(code) || string(job[8:8+size]) != code || string(job[8+size:]) != inputs {
					t.Errorf("%q, want %q and %q", job, code, inputs)
				}
			}
		}
	})
}

// FuzzReadResult: whatever a program sends, what comes of it is one JSON value within the limit, and null where it is none. A bash program's JSON is its
// value as it is.
func FuzzReadResult(f *testing.F) {
	for _, seed := range []string{"", " ", "1", "[1, 2]", "1 2", "nul", `"\ud800"`, "NaN", "v\x00\x00\x00\x00\x00\x00\x00\x011", "f\x00\x00\x00\x00\x00\x00\x00\x01E", "v\xff\xff\xff\xff\xff\xff\xff\xff1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		const limit = 1000
		for _, language := range []string{policy.LanguageBash, policy.LanguageNode} {
			read, write, err := python.ResultPipe()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = write.Write(sent)
				write.Close()
			}()
			got := ReadResult(language, read, limit)
			read.Close()
			if err := policy.CheckPythonJSON("", got.Value); err != nil {
				t.Fatalf("%s: %q isn't JSON: %v", language, got.Value, err)
			}
			if (got.How == python.HowFailed || got.How == python.HowNone) && string(got.Value) != "null" {
				t.Fatalf("%s: %s with the value %s", language, got.How, got.Value)
			}
			if got.How == python.HowValue && len(got.Value) > limit {
				t.Fatalf("%s: %d bytes", language, len(got.Value))
			}
			text := bytes.TrimSpace(sent)
			if language == policy.LanguageBash && len(sent) <= limit && len(text) > 0 && policy.CheckPythonJSON("", jsontext.Value(text)) == nil &&
				(got.How != python.HowValue || !bytes.Equal(got.Value, text)) {
				t.Fatalf("%q became %q (%s)", sent, got.Value, got.How)
			}
		}
	})
}
