package datarobot

import (
	"bytes"
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
