package policy

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// scanned has a text judged in pieces of that size, as the only value of a text.
func scanned(text []byte, size int) error {
	s := JSONScanner{}
	for rest := text; len(rest) > 0; {
		piece := rest[:min(size, len(rest))]
		n, err := s.Scan(piece)
		if err != nil {
			return err
		}
		if n < len(piece) || s.Done() {
			if tail := strings.Trim(string(rest[n:]), " \t\r\n"); tail != "" {
				return notJSONf("", "more than one JSON value")
			}
			return nil
		}
		rest = rest[n:]
	}
	return s.End()
}

func TestJSONScanner(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "not JSON: it ends in the middle, after byte 0"},
		{" \n", "not JSON: it ends in the middle, after byte 2"},
		{"[1", "not JSON: it ends in the middle, after byte 2"},
		{"-", "not JSON: it ends in the middle, after byte 1"},
		{`{"a":1}`, ""},
		{`{"a":1,"a":"\ud800"}`, ""},
		{`{"a":1,}`, "not JSON: '}' where a key begins, at byte 7"},
		{`[1,]`, "not JSON: ']' where a value begins, at byte 3"},
		{`{"a" 1}`, "not JSON: '1' after a key, want a colon, at byte 5"},
		{`[1}`, "not JSON: '}' after a value, at byte 2"},
		{`NaN`, "not JSON: 'N' where a value begins, at byte 0"},
		{`nul1`, "not JSON: '1' in a literal, at byte 3"},
		{`"\x"`, "not JSON: 'x' after a backslash, at byte 2"},
		{`"\u12g4"`, "not JSON: 'g' in a \\u escape, at byte 5"},
		{"\"a\nb\"", "not JSON: '\\n' in a string, at byte 2"},
		{"\"\xff\"", "not UTF-8"},
		{"\"\xed\xa0\x80\"", "not UTF-8"},
		{"\"é\u20ac\U0001F600\"", ""},
		{`01`, "more than one"}, {`1.`, "not JSON: it ends"}, {`1.e5`, "not JSON: 'e' in a number, at byte 2"}, {`-0.5e+10`, ""}, {`1 2`, "more than one"},
		{strings.Repeat("[", 900) + strings.Repeat("]", 900), ""},
		{strings.Repeat("[", 901), "more than 900 levels deep"},
		{strings.Repeat("9", 4300), ""},
		{`[-` + strings.Repeat("9", 4301) + `]`, "an integer of 4301 digits before byte 4303, at most 4300"},
		{strings.Repeat("9", 5000) + ".0", ""},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			err := scanned([]byte(row.text), size)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%.40q in pieces of %d: %v, want %q", row.text, size, err, row.want)
			}
		}
	}
}

func TestJSONScannerNonFinite(t *testing.T) {
	s := JSONScanner{NonFinite: true}
	text := ` [NaN, -Infinity, Infinity, "NaN", NaN, -1] x`
	n, err := s.Scan([]byte(text))
	begin, end := s.Bounds()
	if err != nil || n != len(text)-2 || !s.Done() || begin != 1 || end != int64(n) || s.NaNs != 2 || s.Infinities != 1 || s.NegativeInfinities != 1 {
		t.Errorf("took %d (%d to %d), %v, done %t, counts %d %d %d", n, begin, end, err, s.Done(), s.NaNs, s.Infinities, s.NegativeInfinities)
	}
	for _, wrong := range []string{"{NaN:1}", "-NaN", "Inf]", "[Infinityx]"} {
		s := JSONScanner{NonFinite: true}
		if _, err := s.Scan([]byte(wrong)); err == nil {
			t.Errorf("%s passes", wrong)
		}
	}
}

// FuzzJSONScanner: in whatever pieces a text comes, it is taken or not as the decoder of tokens has it.
func FuzzJSONScanner(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e+3,"\ud800é",null,true,{}]}`, "\"\xf0\x9f\x98\x80\"", "[[[]]] ", "1 2", `{"a":}`, "-0", "\ufeff1", strings.Repeat("[", 901)} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size < 1 {
			size = 1
		}
		whole := CheckPythonJSON("", jsontext.Value(text))
		pieces := scanned(text, size)
		if (whole == nil) != (pieces == nil) {
			// Of a text that is wrong in two ways each names what it meets first; whether it is wrong must be the same.
			t.Fatalf("%q: whole %v, in pieces of %d: %v", text, whole, size, pieces)
		}
		if pieces != nil {
			checkFault(t, pieces)
		}
	})
}

// FuzzRunBody: a body that comes in pieces is the request that it is as a whole, or wrong as well.
func FuzzRunBody(f *testing.F) {
	for _, text := range []string{
		`{"code":"print(inputs)","inputs":{"a":[1,"\ud800",null]},"timeoutSeconds":1.5}`, `{"code":"","inp\u0075ts":1}`, `{"inputs":1,"inputs":2,"code":""}`,
		`{"code":"","env":{"inputs":"}"},"inputs":"x,\"}"}`, `{"code":"","inputs":1`, `[{"inputs":1}]`, `{"inputs":1 2,"code":""}`, `{"inputs" : [1] ,"code":""} x`, `{"code":"\`,
	} {
		f.Add([]byte(text), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 1 {
			size = 1
		}
		want, wantOptions, whole := ParseRun(data)
		got, options, err := inPieces(data, size)
		switch {
		case (whole == nil) != (err == nil):
			t.Fatalf("%q: whole %v, in pieces of %d: %v", data, whole, size, err)
		case err != nil:
			checkFault(t, err)
		case Digest(got) != Digest(want) || options != wantOptions || string(got.Program.Inputs) != string(want.Program.Inputs):
			t.Fatalf("%q: %+v, in pieces %+v", data, want, got)
		}
	})
}

func inPieces(data []byte, size int) (Request, ExecOptions, error) {
	var inputs strings.Builder
	b := RunBody{Inputs: &inputs}
	for rest := data; len(rest) > 0; {
		n := min(size, len(rest))
		if _, err := b.Write(rest[:n]); err != nil {
			return Request{}, ExecOptions{}, err
		}
		rest = rest[n:]
	}
	return b.Parse(jsontext.Value(inputs.String()), nil)
}

func TestRunBody(t *testing.T) {
	for _, row := range []struct{ body, want string }{
		{`{"code":"","inputs":[1,}`, "inputs: not JSON: '}' where a value begins, at byte 3"},
		{`{"code":"","inputs":[1`, "inputs: not JSON: the body ends in the middle of them"},
		{`{"code":"","inputs":[1]`, "not JSON: unexpected EOF"},
		{`{"code":"","inputs":[1],"inputs":2}`, "inputs: duplicate key"},
		{`{"code":"","inputs":[1],"input":2}`, "input: unknown field; nearest is inputs"},
		{`{"code":"","code":"","inputs":[1]}`, "code: duplicate key"},
		{`{"code":"","inputs":` + strings.Repeat("[", 901), "inputs: more than 900 levels deep"},
		{`{"code":"` + strings.Repeat("x", 100) + `"}`, "the body has more than 64 bytes beside its inputs"},
		{`{"code":"","inputs":"` + strings.Repeat("x", 100) + `"}`, "inputs: more than 80 bytes"},
	} {
		b := RunBody{Inputs: new(strings.Builder), MostInputs: 80, MostRest: 64}
		if strings.Contains(row.want, "deep") {
			b.MostInputs = 0
		}
		_, err := b.Write([]byte(row.body))
		if err == nil {
			_, _, err = b.Parse(nil, &Bulk{})
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.60s: %v, want %q", row.body, err, row.want)
		}
	}
	// The writer's error ends it, and the request has no text, but its digest.
	full := errors.New("full")
	b := RunBody{Inputs: writerFunc(func([]byte) (int, error) { return 0, full })}
	if _, err := b.Write([]byte(`{"inputs":1`)); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	text := `{"k": [1, 2, "x"], "k": 3}`
	got, _, err := inPieces(fmt.Appendf(nil, `{"inputs":%s,"code":"pass"}`, text), 5)
	if err != nil {
		t.Fatal(err)
	}
	other := got
	other.Program.Inputs, other.Program.Bulk = nil, new(BulkOf([]byte(text)))
	if err := other.Validate(); err != nil || Digest(got) != Digest(other) {
		t.Errorf("inputs elsewhere: %v, digests %s and %s", err, Digest(got), Digest(other))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
