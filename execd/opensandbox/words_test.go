package opensandbox

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"plain", `"plain"`},
		{"quote \" and \\", "\"quote \\u0022 and \\u005c\""},
		{"a\u0085b\u2028c\u2029d", "\"a\\u0085b\\u2028c\\u2029d\""},
		{"nul\x00 esc\x1b del\x7f\n\r\t", "\"nul\\u0000 esc\\u001b del\\u007f\\u000a\\u000d\\u0009\""},
		{"€ 𐍈 é", `"€ 𐍈 é"`},
		{"bad \xff\xfe and cut \xe2\x82", "\"bad \uFFFD\uFFFD and cut \uFFFD\uFFFD\""},
	} {
		got := string(appendText(nil, []byte(row.text)))
		want := row.want
		if strings.Contains(row.text, `"`) {
			want = `"quote \" and \\"`
		}
		if got != want {
			t.Errorf("%q: %s, want %s", row.text, got, want)
		}
		if len(got)-2 > encodedSize([]byte(row.text)) {
			t.Errorf("%q: %d bytes, said to be at most %d", row.text, len(got)-2, encodedSize([]byte(row.text)))
		}
	}
}

// FuzzText: whatever a program writes is one JSON string, in one line for every client, and loses nothing but what isn't UTF-8.
func FuzzText(f *testing.F) {
	f.Add([]byte("a\u0085\u2028\x00\x7f\xff\xe2\x82\xac\"\\"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := appendText(nil, text)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if utf8.Valid(text) && back != string(text) {
			t.Errorf("%q came back as %q", text, back)
		}
		for _, r := range string(got) {
			if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
				t.Errorf("%q has %U in it", got, r)
			}
		}
		if len(got)-2 > encodedSize(text) {
			t.Errorf("%q: %d bytes, said to be at most %d", text, len(got)-2, encodedSize(text))
		}
	})
}

func TestLines(t *testing.T) {
	for _, row := range []struct {
		pieces []string
		want   []string
	}{
		{[]string{"a\n\nb\n\n\nc\n"}, []string{"a", "\n", "b", "\n", "\n", "c"}},
		{[]string{"\n"}, []string{"\n"}},
		{[]string{"a\nlast"}, []string{"a", "last"}},
		{nil, nil},
		{[]string{"a\rb\rc"}, []string{"a", "b", "c"}},
		{[]string{"a\r\nb\r\n"}, []string{"a", "b"}},
		{[]string{"a\r", "\nb\n"}, []string{"a", "b"}},
		{[]string{"\r", "\n", "\n"}, []string{"\n", "\n"}},
		{[]string{"be", "gun", "\nand"}, []string{"begun", "and"}},
		{[]string{strings.Repeat("x", mostLine) + "€y"}, []string{strings.Repeat("x", mostLine), "€y"}},
		{[]string{strings.Repeat("x", mostLine-1) + "€y"}, []string{strings.Repeat("x", mostLine-1), "€y"}},
	} {
		var got []string
		l := lines{emit: func(text []byte) { got = append(got, string(text)) }}
		for _, piece := range row.pieces {
			l.write([]byte(piece))
		}
		l.end()
		if !slices.Equal(got, row.want) {
			t.Errorf("%.60q: %.60q, want %.60q", row.pieces, got, row.want)
		}
	}
}

// FuzzLines: where a stream is torn into pieces says nothing about its lines.
func FuzzLines(f *testing.F) {
	f.Add("a\r\nb\n\nc\r\rd", uint8(3))
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		whole := func(pieces ...string) (got []string) {
			l := lines{emit: func(text []byte) { got = append(got, string(text)) }}
			for _, piece := range pieces {
				l.write([]byte(piece))
			}
			l.end()
			return got
		}
		at := int(cut) % (len(text) + 1)
		if one, two := whole(text), whole(text[:at], text[at:]); !slices.Equal(one, two) {
			t.Errorf("%q cut at %d: %q, whole %q", text, at, two, one)
		}
	})
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "500m": "1/2", "2Gi": "2147483648", "512Mi": "536870912", "1.5": "3/2", "1k": "1000", "2G": "2000000000", "0.1": "1/10",
	} {
		if got, ok := quantity(text); !ok || got.RatString() != want {
			t.Errorf("%s: %v %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "Gi", "-1", "1e9", "1,5", "0x10", "1/2", "1.2.3", ".", " 1", "1 Gi", "1_000", strings.Repeat("9", 40)} {
		if got, ok := quantity(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestEnvFile(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"": {},
		"A='it is'\nB=\"it's \\\"so\\\" \\\\ \\n\\t\"\n": {"A": "it is", "B": "it's \"so\" \\ \n\t"},
		"A='1'\nA='2'\n":             {"A": "2"},
		"A='two\nlines'\nB='x'\n":    {"A": "two\nlines", "B": "x"},
		"A='$HOME `id` \\n'\n":       {"A": "$HOME `id` \\n"},
		"junk\n=x\n1A='no'\nB='yes'": {"B": "yes"},
		"LD_PRELOAD='/tmp/x'\nBASH_ENV='/tmp/y'\nEXECD_ACCESS_TOKEN='t'\nC='ok'": {"C": "ok"},
		"A='never closed\nB='x'":     {"A": "never closed\nB="},
		"A=bare\nB=\"never closed\n": {"A": "bare"},
	} {
		if got := parseEnvFile([]byte(text)); !maps.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzEnvFile: what the sandbox writes gives names that a shell could have, and none that loads code.
func FuzzEnvFile(f *testing.F) {
	f.Add([]byte("A='x'\nB=\"\\n\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, value := range parseEnvFile(data) {
			if !isName(name) || reservedName(name) || strings.Contains(value, "\x00") {
				t.Errorf("%q: %q=%q", data, name, value)
			}
		}
	})
}

func TestKeys(t *testing.T) {
	good, other := strings.Repeat("k", 40), strings.Repeat("m", 40)
	write := func(content string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys, err := ReadKeys(write("one "+good+"\ntwo "+other+"\n", 0o600))
	if err != nil || len(keys) != 2 || keys[0].Owner.Name != "one" || keys[1].Owner.Name != "two" || keys[0].Owner.Via != Via {
		t.Fatalf("%+v, %v", keys, err)
	}
	for name, path := range map[string]string{
		"others may read":  write("one "+good+"\n", 0o644),
		"no name":          write(good+"\n", 0o600),
		"short":            write("one abc\n", 0o600),
		"one name twice":   write("one "+good+"\none "+other+"\n", 0o600),
		"one key twice":    write("one "+good+"\ntwo "+good+"\n", 0o600),
		"empty line":       write("one "+good+"\n\n", 0o600),
		"nothing":          write("", 0o600),
		"a name with / in": write("a/b "+good+"\n", 0o600),
	} {
		if _, err := ReadKeys(path); err == nil || strings.Contains(err.Error(), good) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRoutes(t *testing.T) {
	routes := []route{{"GET", "/a/{id}", nil}, {"DELETE", "/a/{id}", nil}, {"GET", "/a/b/{id}/c", nil}}
	for _, row := range []struct {
		method, path, id string
		found            bool
		allowed          int
	}{
		{"GET", "/a/1", "1", true, 0}, {"DELETE", "/a/x%2Fy", "x/y", true, 0}, {"PUT", "/a/1", "", false, 2}, {"GET", "/a/", "", false, 0},
		{"GET", "/a/b/2/c", "2", true, 0}, {"GET", "/a", "", false, 0}, {"GET", "/a/%zz", "", false, 0},
	} {
		found, values, allowed := find(routes, row.method, row.path)
		if (found != nil) != row.found || values["id"] != row.id || len(allowed) != row.allowed {
			t.Errorf("%s %s: %v %q %q", row.method, row.path, found, values, allowed)
		}
	}
}
