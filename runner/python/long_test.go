package python

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestReadLong: what is read in pieces, and kept elsewhere, is judged as what is read whole.
func TestReadLong(t *testing.T) {
	text := strings.Repeat("x", 200)
	for _, row := range []struct{ sent, value, how, reason string }{
		{frame('v', `["`+text+`"]`), `["` + text + `"]`, HowValue, ""},
		{frame('v', "\n{\"k\":\n["+text[:0]+"1,\r 2],\"t\":\""+text+"\"}  "), `{"k": [1,  2],"t":"` + text + `"}`, HowValue, ""},
		{frame('v', `[NaN,-Infinity,Infinity,-1,"NaN \" -Infinity\\","`+text+`",NaN]`), `[null,null,null,-1,"NaN \" -Infinity\\","` + text + `",null]`, HowReplaced, "4 times"},
		{frame('r', `"`+text+`"`), `"` + text + `"`, HowRepr, "json.dumps refused"},
		{frame('r', `["`+text+`"]`), "", HowFailed, "isn't a value"},
		{frame('v', `["`+text+`"`), "", HowFailed, "out of bounds: not JSON: it ends in the middle"},
		{frame('v', `["`+text+`"]`)[:150], "", HowFailed, "the value was cut off"},
		{frame('v', `["`+text+`"]`) + "x", "", HowFailed, "more than one value"},
		{frame('v', `["`+text+`"] 1`), "", HowFailed, "more than one JSON value"},
		{frame('v', `["`+text+"\xff\"]"), "", HowFailed, "not UTF-8"},
		{frame('v', `"`+text+`"`+strings.Repeat(" ", 1000)), "", HowFailed, "at most 1000"},
		{frame('v', `1`), `1`, HowValue, ""}, // a short one
		{frame('v', strings.Repeat("[", 901)), "", HowFailed, "more than 900 levels deep"},
	} {
		var kept bytes.Buffer
		rest := strings.NewReader(row.sent)
		got := readLong(oneByte{rest}, 1000, 100, &kept)
		checkLong(t, row.sent, got, &kept, row.value, row.how, row.reason)
		if rest.Len() != 0 {
			t.Errorf("%.60q: %d bytes are left, and would hold the program up", row.sent, rest.Len())
		}
	}
	for _, row := range []struct{ sent, value, how, reason string }{
		{"", "null", HowNone, "without handing over a value"}, {" \n1\n", "1", HowValue, ""}, {`"` + text + `"` + "\n", `"` + text + `"`, HowValue, ""},
		{`"` + text, "", HowFailed, "ends in the middle"}, {strings.Repeat(" ", 1001), "", HowFailed, "more than 1000 bytes"},
	} {
		var kept bytes.Buffer
		checkLong(t, row.sent, readLongText(strings.NewReader(row.sent), 1000, 100, &kept), &kept, row.value, row.how, row.reason)
	}
	full := errors.New("no room")
	got := readLong(strings.NewReader(frame('v', `"`+text+`"`)), 1000, 100, failing{full})
	if got.How != HowFailed || !strings.Contains(got.Reason, "can't be kept: no room") {
		t.Errorf("nowhere to keep it: %+v", got)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func checkLong(t *testing.T, sent string, got Result, kept *bytes.Buffer, value, how, reason string) {
	t.Helper()
	if got.How != how || !strings.Contains(got.Reason, reason) {
		t.Errorf("%.60q: %s (%s), want %s (%s)", sent, got.How, got.Reason, how, reason)
		return
	}
	if how == HowFailed {
		value = "null"
	}
	text := string(got.Value)
	if got.Long != nil {
		text = finiteText(t, *got.Long, kept.Bytes())
	}
	if text != value {
		t.Errorf("%.60q:\n got %s\nwant %s", sent, text, value)
	}
}

func finiteText(t *testing.T, long Long, kept []byte) string {
	t.Helper()
	var out strings.Builder
	text := oneByte{bytes.NewReader(kept[long.Begin:long.End])}
	if err := long.CopyFinite(text, func(piece []byte) error { out.Write(piece); return nil }); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != long.FiniteLen() {
		t.Errorf("%d bytes, %d were said: %.100s", out.Len(), long.FiniteLen(), out.String())
	}
	return out.String()
}

// FuzzReadLong: in pieces a value is the one that it is whole.
func FuzzReadLong(f *testing.F) {
	for _, text := range []string{`[NaN,"\"NaN",-Infinity]`, "\t{\"a\":1}\n", `"x`, "-", "[1] 2"} {
		f.Add(byte(frameValue), []byte(text))
	}
	f.Fuzz(func(t *testing.T, letter byte, text []byte) {
		sent := frame(letter, string(text))
		want := readResult(strings.NewReader(sent), 1<<20)
		var kept bytes.Buffer
		got := readLong(io.MultiReader(strings.NewReader(sent)), 1<<20, 0, &kept)
		if got.How != want.How {
			t.Fatalf("%q: whole %s (%s), in pieces %s (%s)", sent, want.How, want.Reason, got.How, got.Reason)
		}
		if got.Long == nil {
			return
		}
		whole := strings.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, string(bytes.Trim(want.Value, blanks)))
		if text := finiteText(t, *got.Long, kept.Bytes()); text != whole || got.Reason != want.Reason {
			t.Fatalf("%q: whole %q, in pieces %q", sent, whole, text)
		}
	})
}
