package execd

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

// leaving is code that leaves a plot, a table in a directory, and what isn't a file.
const leaving = `
import os
os.makedirs('outputs/tables/deep')
open('outputs/plot.png', 'wb').write(bytes(range(256)) * 4)
open('outputs/tables/deep/a b.csv', 'w').write('x,y\n1,2\n')
open('outputs/empty', 'w').close()
open(b'outputs/\xff', 'w').write('?')
os.symlink('/etc/passwd', 'outputs/link')
os.symlink('/etc', 'outputs/tables/etc')
os.mkfifo('outputs/fifo')
os.mkdir('outputs/nothing')
open('elsewhere', 'w').write('not told')
`

func paths(o *Outputs) string {
	if o == nil {
		return "none"
	}
	var all []string
	for _, f := range o.Files {
		all = append(all, fmt.Sprintf("%s%q %d %q", f.Path, f.PathBase64, f.Size, f.ContentBase64))
	}
	return strings.Join(all, ", ")
}

// TestOutputs: whatever is left in outputs/ is listed, with content where that was asked for and fits; links and the like are neither followed nor told.
func TestOutputs(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	png := ""
	for i := range 1024 {
		png += string([]byte{byte(i)})
	}
	for _, row := range []struct {
		name, code string
		inline     int64
		want       string
	}{
		{"nothing", "pass", 0, "none"},
		{"nothing there", "open('x', 'w').close()", 0, "none"},
		{"a directory without files", "import os; os.makedirs('outputs/a')", 0, "none"},
		{"it is a file", "open('outputs', 'w').write('x')", 0, "none"},
		{"a list", leaving, 0, `empty"" 0 "", plot.png"" 1024 "", tables/deep/a b.csv"" 8 "", "\xff" 1 ""`},
		{"what fits", leaving, 20, `empty"" 0 "", plot.png"" 1024 "", tables/deep/a b.csv"" 8 "x,y\n1,2\n", "\xff" 1 "?"`},
		{"all", leaving, 1 << 20, fmt.Sprintf(`empty"" 0 "", plot.png"" 1024 %q, tables/deep/a b.csv"" 8 "x,y\n1,2\n", "\xff" 1 "?"`, png)},
		{"after an exception", "import os\nos.mkdir('outputs')\nopen('outputs/a', 'w').write('b')\n1/0", 1, `a"" 1 "b"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			reply := s.Exec(t.Context(), pythonRun(row.code), Options{Outputs: true, InlineOutputs: row.inline})
			want := OutcomeOK
			if strings.Contains(row.code, "1/0") {
				want = OutcomeError
			}
			mustBe(t, reply, want)
			if got := paths(reply.Outputs); got != row.want || reply.Outputs != nil && (reply.Outputs.Truncated || reply.Outputs.Directory != "/work/outputs") {
				t.Errorf("%s, want %s; %+v", got, row.want, reply.Outputs)
			}
			if row.inline == 0 && reply.Outputs != nil && reply.Outputs.Files[0].ContentBase64 != nil {
				t.Error("content that nobody asked for")
			}
			if row.inline > 0 && row.name != "after an exception" && reply.Outputs.Files[0].ContentBase64 == nil {
				t.Error("the content of an empty file is missing")
			}
		})
	}
	t.Run("a link in its place", func(t *testing.T) {
		reply := s.Exec(t.Context(), pythonRun("import os; os.symlink('/etc', 'outputs')"), Options{Outputs: true, InlineOutputs: 1 << 20})
		mustBe(t, reply, OutcomeOK)
		if o := reply.Outputs; o == nil || len(o.Files) != 0 || !strings.Contains(o.Message, "link") {
			t.Errorf("%+v", o)
		}
	})
	t.Run("another directory", func(t *testing.T) {
		r := pythonRun("import os\nos.mkdir('/tmp/outputs')\nopen('/tmp/outputs/a', 'w').write('b')")
		r.Program.Cwd = "/tmp"
		reply := s.Exec(t.Context(), r, Options{Outputs: true})
		if got := paths(reply.Outputs); got != `a"" 1 ""` || reply.Outputs.Directory != "/tmp/outputs" {
			t.Errorf("%s", got)
		}
		r.Program.Cwd, r.Program.Code = "/usr", "pass"
		if reply := s.Exec(t.Context(), r, Options{Outputs: true}); reply.Outputs != nil {
			t.Errorf("%+v", reply.Outputs)
		}
	})
	t.Run("too many, too deep", func(t *testing.T) {
		many := s.Exec(t.Context(), pythonRun("import os\nos.mkdir('outputs')\nfor i in range(1500): open(f'outputs/{i:04}', 'w').close()"), Options{Outputs: true})
		if o := many.Outputs; o == nil || len(o.Files) != 1000 || !o.Truncated || o.Files[999].Path != "0999" {
			t.Errorf("%+v", o)
		}
		deep := s.Exec(t.Context(), pythonRun("import os\nd = 'outputs/' + 'd/' * 30\nos.makedirs(d)\nopen(d + 'x', 'w').close()"), Options{Outputs: true})
		if o := deep.Outputs; o == nil || len(o.Files) != 0 || !o.Truncated {
			t.Errorf("%+v", o)
		}
	})
	t.Run("nobody asks", func(t *testing.T) {
		if reply := s.Exec(t.Context(), pythonRun(leaving), Options{}); reply.Outputs != nil {
			t.Errorf("%+v", reply.Outputs)
		}
	})
	stop(t, s)
	// Looking is on record as what it is, and only where there was something to look for.
	var looks int
	for _, r := range readLog(t, c) {
		if r.Type == audit.TypeRelease && r.Request.File != nil {
			looks++
			if !strings.HasPrefix(r.Message, "the outputs of exec ") || !strings.HasSuffix(r.Request.File.Path, "/outputs") {
				t.Errorf("%+v", r)
			}
		}
	}
	if want := 11; looks != want {
		t.Errorf("it was looked %d times, want %d", looks, want)
	}
}

// TestOutputsOfKeptSandbox: they are fetched by the files API under the path that the list gives.
func TestOutputsOfKeptSandbox(t *testing.T) {
	b := newBox(t, testConfig(t))
	body := fmt.Sprintf(`{"sandbox":%q,"code":%s}`, b.id, quoted(leaving))
	reply := b.do(t, "POST", "/v1/run", body).reply(t)
	if reply.Outputs == nil || len(reply.Outputs.Files) != 4 {
		t.Fatalf("%+v", reply.Outputs)
	}
	got := b.file("GET", reply.Outputs.Directory+"/"+reply.Outputs.Files[2].Path, "")
	if got.status != 200 || string(got.body) != "x,y\n1,2\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if streamed := b.do(t, "POST", "/v1/run", `{"stream":true,"code":"import os; os.mkdir('outputs'); open('outputs/a','w').write('b')","outputs":{"inlineBytes":10}}`); !strings.Contains(string(streamed.body), `"contentBase64":"Yg=="`) {
		t.Errorf("%s", streamed.body)
	}
}

// TestOutputsWherePolicyForbids: looking for outputs is a file operation, and policy has its say.
func TestOutputsWherePolicyForbids(t *testing.T) {
	c := testConfig(t)
	c.PolicyDir = filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(c.PolicyDir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	const rule = `package sandboxd.file

# METADATA
# title: No outputs
# description: Nobody has them.
# labels:
#   rule: file.path
deny contains {"rule": "file.path", "message": "No outputs here.", "field": "file.path"} if endswith(input.file.path, "/outputs")
`
	if err := os.WriteFile(filepath.Join(c.PolicyDir, "file", "outputs.rego"), []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, c)
	r := pythonRun("import os\nos.mkdir('outputs')\nopen('outputs/a', 'w').close()")
	reply := s.Exec(t.Context(), r, Options{Outputs: true, InlineOutputs: 1})
	mustBe(t, reply, OutcomeOK)
	if o := reply.Outputs; o == nil || len(o.Files) != 0 || !strings.Contains(o.Message, "policy says no: No outputs here.") {
		t.Errorf("%+v", o)
	}
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestPythonEnvironment: matplotlib finds a backend and a place that can be written, unless the caller says otherwise.
func TestPythonEnvironment(t *testing.T) {
	s := start(t, testConfig(t))
	r := pythonRun("import os\nos.makedirs(os.environ['MPLCONFIGDIR'])\nopen(os.path.expanduser('~/x'), 'w').close()\n_return = os.environ['MPLBACKEND']")
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeOK)
	if string(reply.ReturnValue) != `"Agg"` {
		t.Errorf("%s", reply.ReturnValue)
	}
	r.Program.Env = map[string]string{"MPLBACKEND": "svg"}
	if reply := s.Exec(t.Context(), r, Options{}); string(reply.ReturnValue) != `"svg"` {
		t.Errorf("%s", reply.ReturnValue)
	}
	if reply := s.Exec(t.Context(), command("env"), Options{}); strings.Contains(*reply.Stdout, "MPL") {
		t.Errorf("an exec has %q", *reply.Stdout)
	}
}

// TestOutputsWithANetwork: what was let out for a run alone is let out no more while its outputs are looked for; and a warm run has outputs too.
func TestOutputsWithANetwork(t *testing.T) {
	c := networked(t, "a.example", documentation)
	c.Prewarm = []Prewarm{{Size: 1}}
	s := start(t, c)
	untilFull(t, s)
	r := pythonRun("import os\nos.mkdir('outputs')\nopen('outputs/a', 'w').write('b')")
	for _, network := range []policy.NetworkSpec{letting("a.example"), {}} {
		r.Network = network
		reply := s.Exec(t.Context(), r, Options{Outputs: true, InlineOutputs: 1})
		mustBe(t, reply, OutcomeOK)
		if got := paths(reply.Outputs); got != `a"" 1 "b"` {
			t.Errorf("%s %s: %+v", reply.Interpreter, got, reply.Outputs)
		}
	}
	kept, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.Sandbox, r.Network = kept.id, letting("a.example")
	if _, err := kept.outlet.set(mustCompile(t, r.Network)); err != nil {
		t.Fatal(err)
	}
	reply := s.Exec(t.Context(), r, Options{Outputs: true, InlineOutputs: 1})
	mustBe(t, reply, OutcomeOK)
	if got := paths(reply.Outputs); got != `a"" 1 "b"` {
		t.Errorf("kept: %s: %+v", got, reply.Outputs)
	}
}

func mustCompile(t *testing.T, spec policy.NetworkSpec) *network.Rules {
	t.Helper()
	rules, err := network.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestOutputsInAnImage: where the root is an image's, its files are looked for as elsewhere.
func TestOutputsInAnImage(t *testing.T) {
	root := smallRoot(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	program, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/bash"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ldd", bash).Output()
	if err != nil {
		t.Skip("bash isn't linked with anything:", err)
	}
	for _, word := range strings.Fields(string(out)) {
		if data, err := os.ReadFile(word); err == nil && strings.HasPrefix(word, "/") {
			if err := errors.Join(os.MkdirAll(filepath.Dir(root+word), 0o755), os.WriteFile(root+word, data, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, _ := startImages(t, root, nil)
	r := pythonRun("mkdir outputs && printf hi >outputs/a")
	r.Program.Language, r.Image.Name = policy.LanguageBash, "small"
	reply := s.Exec(t.Context(), r, Options{Outputs: true, InlineOutputs: 10})
	mustBe(t, reply, OutcomeOK)
	if got := paths(reply.Outputs); got != `a"" 2 "hi"` {
		_, stderr := reply.Output()
		t.Errorf("%s %+v %s", got, reply.Outputs, stderr)
	}
}
