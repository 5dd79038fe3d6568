package workloads

import (
	"bytes"
	"encoding/base64"
	"encoding/json/v2"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// What the client joins is what was written, but for line feeds at the end; no line is torn. F5.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\n\n\r"))).Draw(t, "text")
		most := rapid.IntRange(1, 9).Draw(t, "most")
		pieces := slices.Collect(messages(text, most))
		for i, piece := range pieces {
			if strings.HasSuffix(piece, "\n") || piece == "" {
				t.Fatalf("%q: %q loses a line feed", text, pieces)
			}
			if i+1 < len(pieces) && len(piece) < most {
				t.Fatalf("%q: %q is short for %d", text, pieces, most)
			}
		}
		if got := strings.Join(pieces, "\n"); got != strings.TrimRight(text, "\n") {
			t.Fatalf("%q becomes %q", text, got)
		}
	})
}

// The marker line is one line for the client, whatever the value has in it, and the same value.
func TestMarkerText(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": [1.0, NaN]}`: `{"a": [1.0, NaN]}`, "[1,\n\t2]\r\n": "[1,  2]  ", "\"é\u0085\u2028😀\x7f\"": `"\u00e9\u0085\u2028\ud83d\ude00\u007f"`, `"\ud800"`: `"\ud800"`,
	} {
		if got := markerText([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		text, err := json.Marshal(value)
		if err != nil {
			t.Skip("not text")
		}
		line := markerText(text)
		if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
			t.Fatalf("%q at %d", line, i)
		}
		var got string
		if err := json.Unmarshal([]byte(line), &got); err != nil || got != value {
			t.Fatalf("%q became %q, %v", value, got, err)
		}
	})
}

// The judge is Python itself.
func TestPythonInt(t *testing.T) {
	texts := []string{
		"1", " 12\n", "+3", "-4", "1_000", "1__0", "_1", "1_", "", " ", "+", "1.5", "0x10", "1e3", "٣٤", "𝟘𝟙", "1 2", "-+5", "--5", "007", "²", "Ⅷ", "\u00a05\u2003", "1\x00", "99999999999999999999", "-99999999999999999999",
	}
	list, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-I", "-c", `
import json, sys
def number(text):
    try:
        return str(max(-2**63 + 1, min(2**63 - 1, int(text))))
    except ValueError:
        return "no"
print(json.dumps([number(t) for t in json.load(sys.stdin)]))`)
	cmd.Stdin = bytes.NewReader(list)
	out, err := cmd.Output()
	if err != nil {
		t.Skip("no python3 to ask: ", err)
	}
	var want []string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		number, ok := pythonInt(text)
		got := "no"
		if ok {
			got = string(policy.Canonical(number))
		}
		if got != want[i] {
			t.Errorf("%q: %s, want %s", text, got, want[i])
		}
	}
}

// What a client means by its variables. F3: inputs go on as the bytes that came.
func TestParse(t *testing.T) {
	c := DefaultConfig("/x")
	c.Images = []string{testImage}
	const inputs = " {\"a\" : 1e2,\n\"a\":[NaN, \"\\ud800\"]} "
	o, err := c.parse([]byte(payload("\ufeff\ufeffx", func(s *spec) {
		s.env[inVariable] = base64.StdEncoding.EncodeToString([]byte(inputs))[:8] + "\r\n" + base64.StdEncoding.EncodeToString([]byte(inputs))[8:]
		s.env[timeVariable], s.env[procVariable], s.env["MINE"] = " +1_0 ", "99999", "y"
		s.resource = `{"memory":1048576}`
	})))
	if err != nil {
		t.Fatal(err)
	}
	r := o.request
	if string(r.Program.Inputs) != inputs || r.Program.Code != "\ufeffx" || o.seconds != 10 || r.Limits.TimeoutSeconds != 10 || r.Limits.Pids != 4096 ||
		r.Limits.MemoryBytes != 1<<20 || r.Limits.CPU != c.CPU || r.Limits.OutputBytes != c.OutputBytes || r.Program.Env["MINE"] != "y" || len(r.Program.Env) != 1 || r.Caller != (policy.Caller{}) {
		t.Errorf("%+v, %+v", o, r.Program)
	}
	for text, want := range map[string]int64{"": 3600, "x": 3600, "0": 3600, "-5": 3600, "99999999999999999999": 3600, "7": 7, "1.5": 3600} {
		o, err := c.parse([]byte(payload("x", timeout(text))))
		if err != nil || o.seconds != want {
			t.Errorf("%q: %d, %v; want %d", text, o.seconds, err, want)
		}
	}
	o, err = c.parse([]byte(payload("x", func(s *spec) { s.env = map[string]string{codeVariable: "eA=="} })))
	if err != nil || o.seconds != 3600 || string(o.request.Program.Inputs) != "{}" || o.request.Limits.Pids != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// No outcome is without an ending, and only those that ran have a status word.
func TestEndings(t *testing.T) {
	want := map[execd.Outcome]struct {
		status  string
		exit    int
		failure int
	}{
		execd.OutcomeOK: {"succeeded", 0, 0}, execd.OutcomeError: {"errored", 3, 0}, execd.OutcomeSignaled: {"errored", 137, 0}, execd.OutcomeTimeout: {"timeout", 124, 0},
		execd.OutcomeOOM: {"errored", 137, 0}, execd.OutcomeOutputLimit: {"errored", 125, 0}, execd.OutcomeNotStarted: {"errored", 127, 0},
		execd.OutcomeDenied: {"", 125, 403}, execd.OutcomeMismatch: {"", 125, 500}, execd.OutcomeCancelled: {"", 130, 503}, execd.OutcomeInfra: {"", 125, 500},
	}
	for _, outcome := range execd.Outcomes {
		r := execd.Reply{Outcome: outcome, Errno: "ENOENT", Reasons: []policy.Reason{{Message: "because"}}, Message: "why"}
		switch outcome {
		case execd.OutcomeOK:
			r.ExitCode = new(0)
		case execd.OutcomeError:
			r.ExitCode = new(3)
		case execd.OutcomeSignaled:
			r.Signal = new(9)
		}
		got := endingOf(r)
		failure := 0
		if got.Failure != nil {
			if failure = got.Failure.Status; got.Failure.Message == "" || got.Failure.Code == "" {
				t.Errorf("%s: %+v", outcome, got.Failure)
			}
		}
		if w := want[outcome]; got.Status != w.status || got.ExitCode != w.exit || failure != w.failure {
			t.Errorf("%s: %+v, failure %d; want %+v", outcome, got, failure, w)
		}
	}
}

func TestConfig(t *testing.T) {
	good := DefaultConfig("/x")
	good.Images = []string{"a/*"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for field, edit := range map[string]func(*Config){
		"Dir": func(c *Config) { c.Dir = "x" }, "Images": func(c *Config) { c.Images = nil }, `"\["`: func(c *Config) { c.Images = []string{"["} }, `""`: func(c *Config) { c.Images = []string{""} },
		"MemoryBytes": func(c *Config) { c.MemoryBytes = 0 }, "CPU": func(c *Config) { c.CPU = math.NaN() }, "OutputBytes": func(c *Config) { c.OutputBytes = 0 },
		"LongestTimeout": func(c *Config) { c.LongestTimeout = 0 }, "Retention": func(c *Config) { c.Retention = 0 }, "MaxWorkloads": func(c *Config) { c.MaxWorkloads = 0 },
		"WaitingBytes": func(c *Config) { c.WaitingBytes = 1 }, "LogBytes": func(c *Config) { c.LogBytes = 0 }, "BodyBytes": func(c *Config) { c.BodyBytes = 1 << 20 },
		"Uploads": func(c *Config) { c.Uploads = 0 }, "BodyTimeout": func(c *Config) { c.BodyTimeout = 0 }, "WriteTimeout": func(c *Config) { c.WriteTimeout = 0 }, "Logger": func(c *Config) { c.Logger = nil },
	} {
		bad := good
		edit(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), strings.Trim(field, `"\`)) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Whatever comes is an order or a client's fault, and never both.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "null", payload("_return = 1", nil), payload("x", func(s *spec) { s.context = `{"capabilities":{"add":["X"]}}` }),
		payload("x", func(s *spec) { s.env = map[string]string{codeVariable: "eA==", timeVariable: "-1", procVariable: "٣"} }),
	} {
		f.Add([]byte(seed))
	}
	c := DefaultConfig("/x")
	c.Images = []string{testImage, "*"}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := c.parse(body)
		if err != nil {
			if why := asFailure(err); why.Status < 400 || why.Status > 499 || why.Message == "" {
				t.Fatalf("%q: %+v", body, why)
			}
			return
		}
		r := o.request
		if r.Action != policy.ActionRun || r.Program.Code == "" || o.seconds < 1 || r.Limits.MemoryBytes < 1 || r.Limits.MemoryBytes > c.MemoryBytes || r.Limits.CPU > c.CPU || !c.knows(o.image) {
			t.Fatalf("%q: %+v", body, o)
		}
		if drop := r.SecurityContext.Defaulted().Capabilities.Drop; len(drop) != 1 || drop[0] != policy.CapabilityAll {
			t.Fatalf("%q: drops %v", body, drop)
		}
	})
}

func FuzzLogQuery(f *testing.F) {
	for _, seed := range []string{"", "limit=1&offset=2", "level=error&includes=a&includes=b", "startTime=2026-01-02T15:04:05Z", "%zz", "limit=9223372036854775808"} {
		f.Add(seed)
	}
	marks := []mark{{0, false}, {12, true}, {24, false}}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseLogQuery(raw)
		if err != nil {
			if why := asFailure(err); why.Status != 400 {
				t.Fatalf("%q: %+v", raw, why)
			}
			return
		}
		if len(q.includes)+len(q.excludes) > 0 {
			return // there is no file
		}
		p := logPage{query: q, marks: marks, size: 34, ended: time.Unix(0, 0)}
		if err := p.choose(); err != nil || p.first < 0 || p.last < p.first || p.last > len(p.chosen) || len(p.chosen) > len(marks) {
			t.Fatalf("%q: %+v, %v", raw, p, err)
		}
	})
}
