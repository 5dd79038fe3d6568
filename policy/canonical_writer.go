package policy

import (
	"cmp"
	"encoding/base64"
	"encoding/json/jsontext"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// writer writes the canonical form of the words that every exec has a digest of, keys in order. Going through a general encoder and sorting what
// comes out takes twenty times as long. The two are held against each other by a test.
type writer struct {
	bytes []byte
	// comma is wanted before the next member of the object that is open.
	comma bool
}

func (w *writer) open() { w.bytes, w.comma = append(w.bytes, '{'), false }

func (w *writer) close() { w.bytes, w.comma = append(w.bytes, '}'), true }

// name begins a member; its value follows. Names are ours, so that they need no escape.
func (w *writer) name(name string) {
	if w.comma {
		w.bytes = append(w.bytes, ',')
	}
	w.bytes = append(w.bytes, '"')
	w.bytes = append(w.bytes, name...)
	w.bytes = append(w.bytes, '"', ':')
	w.comma = true
}

func (w *writer) text(name, value string) {
	w.name(name)
	w.quote(value)
}

func (w *writer) number(name string, value int64) {
	w.name(name)
	w.bytes = strconv.AppendInt(w.bytes, value, 10)
}

// integer is a number in a list.
func (w *writer) integer(value int64) { w.bytes = strconv.AppendInt(w.bytes, value, 10) }

// someText, someNumber, someFraction and someID leave out what isn't set.
func (w *writer) someText(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *writer) someID(name string, id *int64) {
	if id != nil {
		w.number(name, *id)
	}
}

func (w *writer) someNumber(name string, value int64) {
	if value != 0 {
		w.number(name, value)
	}
}

func (w *writer) someFraction(name string, value float64) {
	if value != 0 {
		w.name(name)
		w.bytes = append(w.bytes, jsontext.Float(value).String()...)
	}
}

func (w *writer) flag(name string, value bool) {
	w.name(name)
	w.bytes = strconv.AppendBool(w.bytes, value)
}

func (w *writer) texts(name string, values []string) {
	w.name(name)
	list(w, values, w.quote)
}

// base64 writes bytes as JSON has them.
func (w *writer) base64(name string, value []byte) {
	w.name(name)
	w.bytes = append(w.bytes, '"')
	w.bytes = base64.StdEncoding.AppendEncode(w.bytes, value)
	w.bytes = append(w.bytes, '"')
}

// environment writes a map, its keys in the order of RFC 8785.
func (w *writer) environment(name string, env map[string]string) {
	w.name(name)
	w.open()
	for _, key := range slices.SortedFunc(maps.Keys(env), compareKeys) {
		if w.comma {
			w.bytes = append(w.bytes, ',')
		}
		w.quote(key)
		w.bytes = append(w.bytes, ':')
		w.quote(env[key])
		w.comma = true
	}
	w.close()
}

// quote writes a string of JSON. What isn't UTF-8 becomes U+FFFD, and for that the error, which says so, doesn't matter.
func (w *writer) quote(value string) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			w.bytes, _ = jsontext.AppendQuote(w.bytes, value)
			return
		}
	}
	w.bytes = append(w.bytes, '"')
	w.bytes = append(w.bytes, value...)
	w.bytes = append(w.bytes, '"')
}

// list writes an array; each writes one element.
func list[T any](w *writer, values []T, each func(T)) {
	w.bytes = append(w.bytes, '[')
	for i, value := range values {
		if i > 0 {
			w.bytes = append(w.bytes, ',')
		}
		each(value)
	}
	w.bytes = append(w.bytes, ']')
	w.comma = true
}

// compareKeys compares by UTF-16 units, which differ from bytes in characters beyond the first 65,536 alone.
func compareKeys(a, b string) int {
	if isASCII(a) && isASCII(b) {
		return cmp.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
