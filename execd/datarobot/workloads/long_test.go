package workloads

import (
	"bytes"
	"encoding/base64"
	"encoding/json/v2"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/spool"
)

// TestLongWorkload: inputs and a value that are too long for memory are what a client sends and finds in the marker line; then nothing of them is kept.
func TestLongWorkload(t *testing.T) {
	s := serve(t, nil)
	text := strings.Repeat(`0123456789abcdef\u00e9\"`, 200_000)
	got := s.run("_return = [inputs, float('nan')]", func(s *spec) {
		s.env[inVariable] = base64.StdEncoding.EncodeToString([]byte(`{"text": "` + text + `", "nan": NaN}`))
	})
	if want := `[{"text": "` + text + `", "nan": NaN}, NaN]`; got.status != statusSucceeded || got.marker != want {
		t.Errorf("%s, exit %d, stderr %q, marker of %d bytes: %.100s, want %d", got.status, got.exit, got.stderr, len(got.marker), got.marker, len(want))
	}
	if held := s.service.Spool().Held(); held != 0 {
		t.Errorf("%d bytes are kept", held)
	}
}

// TestLongWorkloadFaults: each is a 4xx with a text, and leaves nothing.
func TestLongWorkloadFaults(t *testing.T) {
	s := serve(t, func(_ *execd.Config, c *Config) { c.InputBytes = 1 << 20 })
	long := strings.Repeat("x", 300_000)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, row := range []struct {
		name   string
		edit   func(*spec)
		status int
		text   string
	}{
		{"not base64", func(s *spec) { s.env[inVariable] = encode(`"`+long) + "!" }, 422, "not base64"},
		{"not JSON at its end", func(s *spec) { s.env[inVariable] = encode(`["` + long + `",]`) }, 422, "inputs: not JSON: ']' where a value begins"},
		{"ends early", func(s *spec) { s.env[inVariable] = encode(`["` + long) }, 422, "inputs: not JSON: it ends in the middle"},
		{"two values", func(s *spec) { s.env[inVariable] = encode(`"` + long + `" 1`) }, 422, "more than one JSON value"},
		{"too long", func(s *spec) { s.env[inVariable] = encode(`"` + strings.Repeat(long, 6) + `"`) }, 413, "more than 1048576 bytes of inputs"},
		{"a long variable", func(s *spec) { s.env["OTHER"] = long }, 422, "a text of 300000 bytes, where none may be"},
		{"a long name", func(s *spec) { s.env[long] = "x" }, 422, "a text of 300000 bytes, where none may be"},
		{"another's word", func(s *spec) { s.env[inVariable] = strings.Repeat("0", 32) + ":0" }, 422, "not base64"},
	} {
		if got := s.do("POST", "/workloads", payload("pass", row.edit)); got.status != row.status || !strings.Contains(got.body, row.text) {
			t.Errorf("%s: %d %.300s", row.name, got.status, got.body)
		}
	}
	if got := s.do("POST", "/workloads", strings.Repeat(" ", 9<<20)+"{}"); got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "beside its long texts") {
		t.Errorf("%d %s", got.status, got.body)
	}
	// Long code is code.
	got := s.run(strings.Repeat("# a comment\n", 20_000)+"_return = 7", nil)
	if got.marker != "7" {
		t.Errorf("long code: %+v", got)
	}
	if held := s.service.Spool().Held(); held != 0 {
		t.Errorf("%d bytes are kept", held)
	}
}

// TestLifted: whatever pieces a body comes in, what was taken out and what stays are the body again.
func TestLifted(t *testing.T) {
	store, err := spool.New(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat(`x\"\\y`, longText/4)
	body := `{"a":"` + long + `","b":["short","\\","` + long + `z"],"c":"\""}`
	for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, func(r io.Reader) io.Reader { return r }} {
		l := newLifted(store, 1<<20)
		if _, err := io.Copy(struct{ io.Writer }{l}, read(strings.NewReader(body))); err != nil {
			t.Fatal(err)
		}
		whole := string(l.rest)
		for i, text := range l.texts {
			content, err := io.ReadAll(text.Reader(0, text.Len()))
			if err != nil {
				t.Fatal(err)
			}
			whole = strings.Replace(whole, l.nonce+string(rune('0'+i)), string(content), 1)
		}
		if len(l.texts) != 2 || whole != body {
			t.Errorf("%d texts; %.200s", len(l.texts), whole)
		}
		if err := l.all(); err == nil {
			t.Error("texts that nobody asked for pass")
		}
		l.close()
	}
}

func TestUnescaped(t *testing.T) {
	for escaped, want := range map[string]string{
		`ab\/cd`: "ab/cd", `a\u002bb`: "a+b", `a\nb\r\n`: "a\nb\r\n", `\u00e9`: "\xff", `\t`: "\xff", `\u00zz`: "\xff", "plain": "plain",
	} {
		for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, func(r io.Reader) io.Reader { return r }} {
			got, err := io.ReadAll(&unescaped{from: read(strings.NewReader(escaped))})
			if err != nil || string(got) != want {
				t.Errorf("%q is %q: %v, want %q", escaped, got, err, want)
			}
		}
	}
}

// FuzzMarkerText: in pieces it is what it is whole.
func FuzzMarkerText(f *testing.F) {
	f.Add([]byte("[\"a\\\"\\u00e9\", \"é\u2028\U0001F600\x7f\"]\n"))
	f.Fuzz(func(t *testing.T, value []byte) {
		value = bytes.ToValidUTF8(value, []byte("?")) // as values are that were judged
		for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, func(r io.Reader) io.Reader { return r }} {
			var out bytes.Buffer
			size, err := writeMarkerText(&out, read(bytes.NewReader(value)))
			if err != nil || size != int64(out.Len()) {
				t.Fatalf("%d of %d: %v", size, out.Len(), err)
			}
			var got string
			if err := json.Unmarshal([]byte(`"`+out.String()+`"`), &got); err != nil || got != markerText(value) {
				t.Fatalf("%q in pieces is %q, whole %q: %v", value, got, markerText(value), err)
			}
		}
	})
}
