package python

import (
	"bytes"
	"encoding/binary"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/policy"
)

// How a value was obtained.
const (
	// HowValue: it is JSON as json.dumps(value, default=str) writes it.
	HowValue = "value"
	// HowRepr: json.dumps refused it; it is the string that repr gave.
	HowRepr = "repr"
	// HowReplaced: NaN and infinities, which JSON doesn't have, were replaced by null.
	HowReplaced = "replaced"
	// HowNone: the program ended without a word (os._exit, a signal, a kill); the value is null.
	HowNone = "none"
	// HowFailed: there is a value and it can't be had; it is null.
	HowFailed = "failed"
)

// Result is the value of _return.
type Result struct {
	// Value is JSON that every reader takes: at most 900 levels deep, no integer above 4300 digits. Never nil; null when there is none.
	// Keys may repeat and surrogates may be alone, as they do in Python.
	Value jsontext.Value `json:"value"`
	// Text is the value as Python wrote it: as Value, but with NaN, Infinity and -Infinity in place. For a façade whose client expects them.
	Text []byte `json:"-"`
	How  string `json:"how"`
	// Reason says why How isn't "value".
	Reason string `json:"reason,omitempty"`
	// Long is set for a value that [ReadLong] wrote elsewhere; Value and Text are nil then.
	Long *Long `json:"-"`
}

// The frame that the driver sends: a letter, 8 bytes of length, and the payload.
const (
	frameHeader = 9
	frameValue  = 'v'
	frameRepr   = 'r'
	frameFail   = 'f'
	// longestReason bounds what the other side says about itself.
	longestReason = 1024
)

// ReadResult reads what the driver sent, to the end of the pipe or to r's deadline, and keeps at most limit bytes of value. It has to run while
// the program does, since a pipe holds little; it reads on after a fault, so that the program isn't held up. What comes is a stranger's: at most
// one frame of known shape with valid JSON in it is a value.
func ReadResult(r *os.File, limit int64) Result { return readResult(r, limit) }

// ReadText reads a value that a program without a driver wrote itself: one JSON text, to the end of the pipe or to r's deadline.
func ReadText(r *os.File, limit int64) Result { return readText(r, limit) }

func readText(r io.Reader, limit int64) Result {
	defer func() { _, _ = io.Copy(io.Discard, r) }()
	var payload bytes.Buffer
	n, err := io.Copy(&payload, io.LimitReader(r, limit+1))
	switch {
	case n > limit:
		return failed("the value has more than %d bytes", limit)
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return failed("reading the value: %v", err)
	}
	return judgeText(payload.Bytes())
}

// judgeText takes a whole text, which may have blanks around.
func judgeText(text []byte) Result {
	if text = bytes.Trim(text, blanks); len(text) == 0 {
		return none("the program ended without handing over a value")
	}
	return judge(frameValue, text)
}

// blanks are those of JSON.
const blanks = " \t\r\n"

func readResult(r io.Reader, limit int64) Result { return readFrame(r, limit, limit, nil) }

// readFrame reads the one frame. A value of more than short bytes is read by long, unless that is nil.
func readFrame(r io.Reader, limit, short int64, long func(letter byte, size int64) Result) Result {
	defer func() { _, _ = io.Copy(io.Discard, r) }()
	var header [frameHeader]byte
	n, err := io.ReadFull(r, header[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return none("the program ended without handing over a value")
	case n == 0:
		return none("the program was stopped before it handed over a value")
	case err != nil:
		return failed("the value was cut off")
	}
	letter, size := header[0], binary.BigEndian.Uint64(header[1:])
	switch {
	case letter != frameValue && letter != frameRepr && letter != frameFail:
		return failed("what the program sent isn't a value")
	case letter == frameFail && size > longestReason:
		return failed("the reason why there is no value is longer than %d bytes", longestReason)
	case letter != frameFail && (limit < 0 || size > uint64(limit)):
		return failed("the value has %d bytes, at most %d", size, max(limit, 0))
	case letter != frameFail && size > uint64(max(short, 0)) && long != nil:
		return long(letter, int64(size))
	}
	// Read as it comes and not into size bytes at once: the length is the other side's word.
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, r, int64(size)); err != nil {
		return failed("the value was cut off")
	}
	if wrong := noMore(r); wrong != nil {
		return *wrong
	}
	return judge(letter, payload.Bytes())
}

// noMore holds that a frame is all there is.
func noMore(r io.Reader) *Result {
	var one [1]byte
	n, err := r.Read(one[:])
	switch {
	case n > 0:
		return new(failed("the program sent more than one value"))
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded):
		return new(failed("reading the value: %v", err))
	}
	return nil
}

// judge takes a whole frame.
func judge(letter byte, payload []byte) Result {
	if letter == frameFail {
		if !utf8.Valid(payload) {
			return failed("the value can't be encoded")
		}
		return failed("the value can't be encoded: %s", strings.Map(printable, string(payload)))
	}
	value, replaced := WithoutNonFinite(payload)
	if err := policy.CheckPythonJSON("", value); err != nil {
		return failed("the value is out of bounds: %v", err)
	}
	switch {
	case letter == frameRepr && (value[0] != '"' || replaced > 0):
		return failed("what the program sent isn't a value")
	case letter == frameRepr:
		return Result{Value: value, Text: payload, How: HowRepr, Reason: reprReason}
	case replaced > 0:
		return Result{Value: value, Text: payload, How: HowReplaced, Reason: fmt.Sprintf(replacedReason, replaced)}
	}
	return Result{Value: value, Text: payload, How: HowValue}
}

// nonFinite are the tokens of Python's JSON that aren't JSON, the longer before its tail.
var nonFinite = []string{"NaN", "-Infinity", "Infinity"}

// WithoutNonFinite replaces NaN and infinities, as Python writes them, by null, and counts them. Those in strings stay: no token of JSON has an N
// or an I in it. What isn't JSON but for them stays so.
func WithoutNonFinite(text []byte) (value jsontext.Value, replaced int) {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text, 0
	}
	out, inString := make([]byte, 0, len(text)), false
next:
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == 'N' || c == 'I' || c == '-'):
			for _, token := range nonFinite {
				if bytes.HasPrefix(text[i:], []byte(token)) {
					out = append(out, "null"...)
					i += len(token) - 1
					replaced++
					continue next
				}
			}
		}
		out = append(out, text[i])
	}
	return out, replaced
}

const (
	reprReason     = "json.dumps refused the value; this is its repr"
	replacedReason = "%d times NaN or infinity, which JSON doesn't have, became null"
)

func none(reason string) Result {
	return Result{Value: jsontext.Value("null"), Text: []byte("null"), How: HowNone, Reason: reason}
}

func failed(format string, args ...any) Result {
	return Result{Value: jsontext.Value("null"), Text: []byte("null"), How: HowFailed, Reason: fmt.Sprintf(format, args...)}
}

// printable keeps the other side's words on one line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}
