package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FieldError is one thing that is wrong with a value that somebody wrote: where it is, what is wrong, and the word that was probably meant.
type FieldError struct {
	// Field is a path such as "securityContext.capabilities.add[0]"; empty is the whole body.
	Field string
	// Message is one sentence without a full stop that starts with what is wrong.
	Message string
	// Nearest is the right word nearest to the wrong one; empty when none is near.
	Nearest string
	cause   error
}

// ErrNotJSON is beneath a fault of a text that isn't JSON at all, as opposed to one that is and breaks a rule.
var ErrNotJSON = errors.New("not JSON")

// Unwrap is [ErrNotJSON] or nil.
func (e *FieldError) Unwrap() error { return e.cause }

// Error reads "securityContext.capabilities.ad: unknown field; nearest is add".
func (e *FieldError) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Nearest != "" {
		text += "; nearest is " + e.Nearest
	}
	return text
}

// faultf is a FieldError without a nearest word.
func faultf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// notJSONf is a fault of a text that isn't JSON.
func notJSONf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...), cause: ErrNotJSON}
}

// orNil turns a nil *FieldError into a nil error: an interface that holds a typed nil would read as a fault.
func orNil(fault *FieldError) error {
	if fault == nil {
		return nil
	}
	return fault
}

// longestQuote is how many bytes of foreign text an error repeats.
const longestQuote = 64

// quote repeats foreign text in an error: escaped, and cut on a character boundary when it is long.
func quote(text string) string {
	if len(text) <= longestQuote {
		return strconv.Quote(text)
	}
	cut := longestQuote
	for cut > longestQuote-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strconv.Quote(text[:cut]) + "…"
}

// member is the path of a member of field: field.name, or field["na.me"] where the name would read as something else.
func member(field, name string) string {
	if !plainName(name) {
		return field + "[" + quote(name) + "]"
	}
	if field == "" {
		return name
	}
	return field + "." + name
}

// element is the path of an element of a list.
func element(field string, index int) string {
	return field + "[" + strconv.Itoa(index) + "]"
}

// plainName says whether a key can stand in a path unquoted.
func plainName(name string) bool {
	if name == "" || len(name) > longestQuote {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}
