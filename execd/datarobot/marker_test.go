package datarobot

import (
	"bytes"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

func TestParseMarker(t *testing.T) {
	const m = Marker
	for _, test := range []struct{ stdout, clean, value, fault string }{
		{"", "", "-", ""},
		{"a\r\nb\u2028c\f", "a\r\nb\u2028c\f", "-", ""},
		{m + "42", "", "42", ""},
		{m + "42\r\n", "", "42", ""},
		{"hello\n" + m + "42\n", "hello", "42", ""},
		{"hello\n\n" + m + "1\n", "hello\n", "1", ""},
		{m + "1\n\n\n", "\n", "1", ""},
		{m + "1\nbye\n", "bye", "1", ""},
		{m + "1\n\nbye", "\nbye", "1", ""},
		{"\n" + m + "1\n", "", "1", ""},
		{"\n\n" + m + "1\nb", "\n\nb", "1", ""},
		{"a\n" + m + "1\nb\nc", "a\nb\nc", "1", ""},
		{m + "1\n" + m + "2\n", m + "1", "2", ""},
		{m + "1\n" + m + "oops\n", m + "1", "null", ""},
		{"tail" + m + "1\n", "tail" + m + "1\n", "-", ""},
		{" " + m + "1\n", " " + m + "1\n", "-", ""},
		{"\ufeff" + m + "1", "\ufeff" + m + "1", "-", ""},
		{"a\x1f" + m + "1", "a\x1f" + m + "1", "-", ""},
		{"a\x00" + m + "1", "a\x00" + m + "1", "-", ""},
		{"a\r\nb\vc\fd\x1ce\x1df\x1eg\u0085h\u2028i\u2029j\n" + m + "1\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj", "1", ""},
		{"\xff\x85\xe2\x80\n" + m + "1", "\xff\x85\xe2\x80", "1", ""},
		{m + "\"\xff\"", "", `"` + "\uFFFD" + `"`, ""},
		{m + " 42 \t\n", "", "42", ""},
		{m + "\u00a01\n", "", "null", ""},
		{m + "\"a\u2028b\"\n", `b"`, "null", ""},
		{m + `{"a":1,"a":"\ud800"}`, "", `{"a":1,"a":"\ud800"}`, ""},
		{m + "[NaN, -Infinity]", "", "[null, null]", ""},
		{m, "", "null", ""},
		{m + strings.Repeat("[", 900) + strings.Repeat("]", 900), "", strings.Repeat("[", 900) + strings.Repeat("]", 900), ""},
		{"a\n" + m + strings.Repeat("[", 901) + strings.Repeat("]", 901), "a", "null", "result marker: more than 900 levels deep"},
		{m + strings.Repeat("7", 4301), "", "null", "result marker: an integer of 4301 digits at the top, at most 4300"},
	} {
		clean, value, found, err := ParseMarker([]byte(test.stdout))
		got := string(value)
		if !found {
			if got != "null" {
				t.Errorf("%.80q: the value is %s though there is none", test.stdout, got)
			}
			got = "-"
		}
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if string(clean) != test.clean || got != test.value || fault != test.fault {
			t.Errorf("%.80q:\n got %q, %.80s, %q\nwant %q, %.80s, %q", test.stdout, clean, got, fault, test.clean, test.value, test.fault)
		}
	}
}

// The client's own parser, as it answered.
func TestParseMarkerConformance(t *testing.T) {
	type vector struct {
		ID       string     `json:"id"`
		Input    *string    `json:"input"`
		InputGen *generated `json:"input_gen"`
		Expect   struct {
			HasMarker bool    `json:"has_marker"`
			Stdout    *string `json:"stdout"`
			ValueJSON *string `json:"value_json"`
			Error     *string `json:"error"`
		} `json:"expect"`
	}
	rows := vectors[vector](t, "parser_vectors.jsonl")
	if len(rows) < 80 {
		t.Fatalf("only %d vectors", len(rows))
	}
	// The values, as the client would have encoded them again.
	ids, texts := []string{}, []jsontext.Value{}
	want := map[string]string{}
	for _, row := range rows {
		if row.Input == nil {
			row.Input = new(row.InputGen.String())
		}
		clean, value, found, err := ParseMarker([]byte(*row.Input))
		if found != row.Expect.HasMarker || (err != nil) != (row.Expect.Error != nil) {
			t.Errorf("%s: found is %t, the error %v; want %t, %v", row.ID, found, err, row.Expect.HasMarker, row.Expect.Error)
		}
		if row.Expect.Stdout != nil && string(clean) != *row.Expect.Stdout {
			t.Errorf("%s: clean is %q, want %q", row.ID, clean, *row.Expect.Stdout)
		}
		if row.Expect.ValueJSON != nil {
			ids, texts = append(ids, row.ID), append(texts, value)
			// The value is JSON, where the client has tokens that aren't.
			want[row.ID] = strings.NewReplacer("-Infinity", "null", "Infinity", "null", "NaN", "null").Replace(*row.Expect.ValueJSON)
		}
	}
	for i, got := range reencode(t, texts) {
		if got = strings.NewReplacer("-Infinity", "null", "Infinity", "null").Replace(got); got != want[ids[i]] {
			t.Errorf("%s: the value is %s, encoded again %s, want %s", ids[i], texts[i], got, want[ids[i]])
		}
	}
}

// reencode has Python decode and encode each text.
func reencode(t *testing.T, texts []jsontext.Value) []string {
	t.Helper()
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = string(text)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-I", "-c", "import json, sys; print(json.dumps([json.dumps(json.loads(t)) for t in json.load(sys.stdin)]))")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	var again []string
	if err := json.Unmarshal(out, &again); err != nil {
		t.Fatal(err)
	}
	return again
}

func FuzzParseMarker(f *testing.F) {
	for _, seed := range []string{"", Marker + "1", "a\r\n" + Marker + "[NaN]\u2028b", Marker + "\"\xff\"", "x\u0085" + Marker + "{", "\xe2\x80" + Marker + "1\xc2"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		clean, value, found, err := ParseMarker(stdout)
		if fault := policy.CheckPythonJSON("", value); fault != nil {
			t.Fatalf("the value %q isn't JSON: %v", value, fault)
		}
		if !found && (!bytes.Equal(clean, stdout) || string(value) != "null" || err != nil) {
			t.Fatalf("nothing found, but got %q, %s, %v", clean, value, err)
		}
		if found {
			if !bytes.Contains(stdout, []byte(Marker)) || len(clean) > len(stdout)-len(Marker) {
				t.Fatalf("found in %q, leaving %q", stdout, clean)
			}
			// An earlier marker stays; the next call takes it, until none is left.
			before, after := bytes.Count(stdout, []byte(Marker)), bytes.Count(clean, []byte(Marker))
			if after >= before {
				t.Fatalf("%d markers before, %d after", before, after)
			}
		}
	})
}
