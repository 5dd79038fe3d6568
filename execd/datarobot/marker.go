// Package datarobot speaks the wire contract of DataRobot's sandbox. So far it reads the result marker, by which programs written for that
// runner hand a value over on stdout.
package datarobot

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// Marker begins the line that has the value.
const Marker = "__DR_SANDBOX_RESULT__:"

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
	before, payload, after, found := cut(stdout)
	if !found {
		return stdout, jsontext.Value("null"), false, nil
	}
	clean = normalise(make([]byte, 0, len(stdout)), before)
	if clean, after = bytes.TrimSuffix(clean, []byte("\n")), bytes.TrimSuffix(normalise(nil, after), []byte("\n")); len(before) > 0 && endsLine(after) {
		clean = append(clean, '\n')
	}
	clean = append(clean, after...)
	value, err = decode(payload)
	return clean, value, true, err
}
