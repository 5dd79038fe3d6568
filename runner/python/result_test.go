package python

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

func frame(letter byte, payload string) string {
	return string(binary.BigEndian.AppendUint64([]byte{letter}, uint64(len(payload)))) + payload
}

func TestReadResult(t *testing.T) {
	for _, test := range []struct{ sent, value, how, reason string }{
		{"", "null", HowNone, "the program ended without handing over a value"},
		{"v", "null", HowFailed, "the value was cut off"},
		{frame('v', "1")[:9], "null", HowFailed, "the value was cut off"},
		{frame('v', "12")[:10], "null", HowFailed, "the value was cut off"},
		{frame('v', "1"), "1", HowValue, ""},
		{frame('v', `{"a":1,"a":"\ud800"}`), `{"a":1,"a":"\ud800"}`, HowValue, ""},
		{frame('v', "1") + "x", "null", HowFailed, "the program sent more than one value"},
		{frame('v', "1") + frame('v', "2"), "null", HowFailed, "the program sent more than one value"},
		{frame('x', "1"), "null", HowFailed, "what the program sent isn't a value"},
		{frame('v', ""), "null", HowFailed, "the value is out of bounds: not JSON: EOF"},
		{frame('v', "1 2"), "null", HowFailed, "the value is out of bounds: more than one JSON value"},
		{frame('v', "nope"), "null", HowFailed, "the value is out of bounds: not JSON: invalid character 'o' in literal null (expecting 'u') at byte 1"},
		{frame('v', "\"\xff\""), "null", HowFailed, "the value is out of bounds: not UTF-8"},
		{frame('v', strings.Repeat("[", 901)), "null", HowFailed, "the value is out of bounds: more than 900 levels deep"},
		{frame('v', strings.Repeat("1", 1001)), "null", HowFailed, "the value has 1001 bytes, at most 1000"},
		{"v\xff\xff\xff\xff\xff\xff\xff\xff", "null", HowFailed, "the value has 18446744073709551615 bytes, at most 1000"},
		{frame('v', "[NaN, -Infinity, Infinity]"), "[null, null, null]", HowReplaced, "3 times NaN or infinity, which JSON doesn't have, became null"},
		{frame('v', "{NaN: 1}"), "null", HowFailed, "the value is out of bounds: not JSON: object member name must be a string at byte 1"},
		{frame('v', "NaNNaN"), "null", HowFailed, "the value is out of bounds: more than one JSON value"},
		{frame('v', `"NaN\\"`), `"NaN\\"`, HowValue, ""},
		{frame('v', `"NaN\`), "null", HowFailed, "the value is out of bounds: not JSON: unexpected EOF at byte 4"},
		{frame('r', `"x NaN"`), `"x NaN"`, HowRepr, "json.dumps refused the value; this is its repr"},
		{frame('r', `{"a":1}`), "null", HowFailed, "what the program sent isn't a value"},
		{frame('r', `NaN`), "null", HowFailed, "what the program sent isn't a value"},
		{frame('f', "E: \x1b[2J\n"), "null", HowFailed, "the value can't be encoded: E: ?[2J?"},
		{frame('f', "\xff"), "null", HowFailed, "the value can't be encoded"},
		{frame('f', strings.Repeat("x", 1025)), "null", HowFailed, "the reason why there is no value is longer than 1024 bytes"},
	} {
		// One byte at a time: a pipe gives what it has.
		rest := strings.NewReader(test.sent)
		got := readResult(oneByte{rest}, 1000)
		if string(got.Value) != test.value || got.How != test.how || got.Reason != test.reason {
			t.Errorf("%.60q:\n got %s %s %q\nwant %s %s %q", test.sent, got.How, got.Value, got.Reason, test.how, test.value, test.reason)
		}
		if rest.Len() != 0 {
			t.Errorf("%.60q: %d bytes are left, and would hold the program up", test.sent, rest.Len())
		}
	}
}

type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// A pipe that somebody holds open ends at the deadline, with what was whole by then.
func TestReadResultDeadline(t *testing.T) {
	for sent, want := range map[string]string{"": HowNone, frame('v', "1"): HowValue, frame('v', "12")[:10]: HowFailed} {
		read, write, err := ResultPipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write.WriteString(sent); err != nil {
			t.Fatal(err)
		}
		if err := read.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if got := ReadResult(read, 1000); got.How != want {
			t.Errorf("%q: got %s (%s), want %s", sent, got.How, got.Reason, want)
		}
		read.Close()
		write.Close()
	}
}

func TestInvocation(t *testing.T) {
	argv, extra, result, err := Invocation(policy.Program{Language: "python", Code: "secret", Inputs: []byte(`{"token":"hidden"}`)}, 0, Compiled{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	text := strings.Join(argv, " ")
	if want := "python3 -I -u -X utf8 -c import os, "; !strings.Contains(text, "os.pread(7,") || !strings.HasPrefix(text, want) || !strings.HasSuffix(text, " 8 9") {
		t.Errorf("argv is %s", text)
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "hidden") {
		t.Errorf("the program is in argv: %s", text)
	}
	if len(extra) != 3 {
		t.Fatalf("%d descriptors, want 3", len(extra))
	}
	for _, file := range extra[:2] {
		if _, err := file.WriteAt([]byte("x"), 0); err == nil {
			t.Errorf("%s can be written to", file.Name())
		}
		if err := file.Truncate(0); err == nil {
			t.Errorf("%s can be truncated", file.Name())
		}
	}
	if whole, err := io.ReadAll(extra[0]); err != nil || string(whole) != driver {
		t.Errorf("the driver reads %.40q, %v", whole, err)
	}
	for _, file := range extra {
		file.Close()
	}
	if _, _, _, err := Invocation(policy.Program{Language: "ruby"}, 0, Compiled{}, 3); err == nil {
		t.Error("ruby has a driver")
	}
}

func FuzzReadResult(f *testing.F) {
	for _, seed := range []string{"", frame('v', "[NaN]"), frame('r', `"x"`), frame('f', "E"), frame('v', "1") + "1", "v\xff\xff\xff\xff\xff\xff\xff\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		got := readResult(bytes.NewReader(sent), 1000)
		if err := policy.CheckPythonJSON("", got.Value); err != nil {
			t.Fatalf("%q isn't JSON: %v", got.Value, err)
		}
		if (got.How == HowFailed || got.How == HowNone) && string(got.Value) != "null" {
			t.Fatalf("%s with the value %s", got.How, got.Value)
		}
	})
}

// The driver takes nothing that isn't in every CPython, and little of it.
func TestDriverIsSmall(t *testing.T) {
	source, err := os.ReadFile("driver.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(source) > 16<<10 {
		t.Errorf("%d bytes", len(source))
	}
}
