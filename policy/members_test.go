package policy

import (
	"encoding/json/jsontext"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `{}`: 0, `[1,2,3]`: 2, `{"a":1,"b":[{},{}]}`: 2, `{"a":"x,y\",,"}`: 0, `{"a\\":",","b":1}`: 1,
		`{"inputs":[1,2,3],"code":""}`: 1, `{"code":"","inputs":{"a":[1,2],"b":3}}`: 1, `{"a":{"inputs":[1,2]}}`: 1, `{"a":"inputs","b":[1,2]}`: 2,
		`{"inputs":[1,2],"inputs":[1,2],"b":[1,2]}`: 3, `["inputs",[1,2]]`: 2, `"inputs`: 0, `{"inputs`: 0, `{"inputs\`: 0,
	} {
		if got := Members([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// FuzzMembers holds the count against a decoder's: it is never less than the values that a decoder makes, but for those of inputs.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{`{"command":{"argv":["a","b"],"env":{"A":",","B":"\""}}}`, `{"inputs":[1,2],"code":"x"}`, `[[],[,]]`, `"\`, `{"network":{"egress":[{},{}]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := Members(data)
		if got < 0 || got > len(data) {
			t.Fatalf("%d members in %d bytes", got, len(data))
		}
		if strings.Contains(string(data), "inputs") {
			return
		}
		var counted int
		if !elements(jsontext.NewDecoder(strings.NewReader(string(data)), permissive...), &counted) {
			return
		}
		if got < counted || jsontext.Value(data).IsValid(permissive...) && got != counted {
			t.Fatalf("%d, and a decoder counts %d", got, counted)
		}
	})
}

// elements counts those that have one before them, of one JSON text and no more; false: it isn't one.
func elements(dec *jsontext.Decoder, count *int) bool {
	token, err := dec.ReadToken()
	if err != nil {
		return false
	}
	kind := token.Kind()
	for first := true; kind == '{' || kind == '['; first = false {
		if next := dec.PeekKind(); next == '}' || next == ']' {
			_, err := dec.ReadToken()
			return err == nil
		}
		if !first {
			*count++
		}
		if kind == '{' {
			if _, err := dec.ReadToken(); err != nil {
				return false
			}
		}
		if !elements(dec, count) {
			return false
		}
	}
	if dec.StackDepth() > 0 {
		return true
	}
	_, err = dec.ReadToken()
	return errors.Is(err, io.EOF)
}
