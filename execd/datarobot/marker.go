// Package datarobot speaks the wire contract of DataRobot's sandbox. So far it reads the result marker, by which programs written for that
// runner hand a value over on stdout.
package datarobot

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"iter"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/dropin"
	"github.com/sandboxd/sandboxd/runner/python"
)

// Marker begins the line that has the value.
const Marker = dropin.Marker

// ParseMarker finds the last line of stdout that begins with [Marker], as the contract's client does: lines end as Python's str.splitlines has
// it. The value is the JSON behind the marker, valid and as it was written, with null in place of NaN and infinities; null when what is there
// isn't JSON. clean is stdout without that line: the other lines joined by a line feed, so that the last line end is lost and every other
// becomes a line feed. Without a marker clean is stdout, untouched.
//
// Anyone who can write to stdout can write a marker: the value is a claim of the program's, and no more than that.
//
// The error is that of a value nested more than 900 levels deep or with an integer of more than 4300 digits, at which the client fails.
// found and clean hold then, too.
func ParseMarker(stdout []byte) (clean []byte, value jsontext.Value, found bool, err error) {
	last, payload := -1, []byte(nil)
	i := 0
	for line := range splitlines(stdout) {
		if rest, ok := bytes.CutPrefix(line, []byte(Marker)); ok {
			last, payload = i, rest
		}
		i++
	}
	if last < 0 {
		return stdout, jsontext.Value("null"), false, nil
	}
	clean = make([]byte, 0, len(stdout)-len(Marker)-len(payload))
	i = 0
	for line := range splitlines(stdout) {
		// The first line that stays is the second when the marker was the first.
		if i != last {
			if i > 0 && !(i == 1 && last == 0) {
				clean = append(clean, '\n')
			}
			clean = append(clean, line...)
		}
		i++
	}
	value, err = decode(payload)
	return clean, value, true, err
}

// splitlines yields the lines of text without their ends, as str.splitlines does. Bytes that aren't UTF-8 end no line.
func splitlines(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for i := 0; i < len(text); {
			width := lineEnd(text[i:])
			if width == 0 {
				i++
				continue
			}
			if !yield(text[start:i]) {
				return
			}
			i += width
			start = i
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}

// lineEnd is how many bytes the end of a line takes at the front of text; 0: none is there.
func lineEnd(text []byte) int {
	at := func(i int) byte {
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	switch text[0] {
	case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e: // the last three are the separators of files, groups and records
		return 1
	case '\r':
		if at(1) == '\n' {
			return 2
		}
		return 1
	case 0xc2: // U+0085, next line
		if at(1) == 0x85 {
			return 2
		}
	case 0xe2: // U+2028 and U+2029, the separators of lines and paragraphs
		if at(1) == 0x80 && (at(2) == 0xa8 || at(2) == 0xa9) {
			return 3
		}
	}
	return 0
}

// decode is json.loads, as far as it says whether there is a value.
func decode(payload []byte) (jsontext.Value, error) {
	// What isn't UTF-8 reaches the client as U+FFFD.
	text, _ := python.WithoutNonFinite(bytes.ToValidUTF8(payload, []byte("\uFFFD")))
	err := policy.CheckPythonJSON("", text)
	switch {
	case err == nil:
		return jsontext.Value(bytes.Trim(text, " \t")).Clone(), nil
	case errors.Is(err, policy.ErrNotJSON):
		return jsontext.Value("null"), nil
	}
	return jsontext.Value("null"), fmt.Errorf("result marker: %w", err)
}
