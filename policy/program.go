package policy

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"io"
	"unicode/utf8"
)

// Program is source code for an interpreter.
type Program struct {
	// Language is one of [Languages].
	Language string `json:"language"`
	// Code is the source text, UTF-8 without NUL.
	Code string `json:"code"`
	// Inputs is any JSON value, handed over as the text that came. It is Python's to decode: keys may repeat and surrogates may be alone,
	// so that it isn't always what this language's own encoder accepts. See [CheckPythonJSON].
	Inputs jsontext.Value `json:"inputs"`
	// Bulk stands for inputs that are elsewhere, and were judged when they came ([RunBody]); Inputs is nil then.
	Bulk *Bulk `json:"-"`
	// Env and Cwd: as in Command.
	Env map[string]string `json:"env"`
	Cwd string            `json:"cwd"`
}

// The languages of a Program.
const (
	LanguageBash   = "bash"
	LanguageNode   = "node"
	LanguagePython = "python"
)

// Languages are those that have a driver.
var Languages = []string{LanguageBash, LanguageNode, LanguagePython}

// What CPython's decoder takes: it recurses about a thousand times, and converts integers of at most 4300 digits
// (sys.int_info.default_max_str_digits).
const (
	deepestInputs  = 900
	longestInteger = 4300
)

// permissive reads JSON as Python does.
var permissive = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// check says what no Program may be, whoever made it.
func (p Program) check(field string) *FieldError {
	if fault := checkEnum(member(field, "language"), p.Language, Languages); fault != nil {
		return fault
	}
	if fault := checkText(member(field, "code"), p.Code); fault != nil {
		return fault
	}
	switch {
	case p.Bulk != nil && p.Inputs != nil:
		return faultf(member(field, "inputs"), "bug: here and elsewhere; please report it")
	case p.Bulk == nil:
		if fault := checkPythonJSON(member(field, "inputs"), p.Inputs); fault != nil {
			return fault
		}
	}
	if fault := checkEnv(member(field, "env"), p.Env, 0); fault != nil {
		return fault
	}
	return checkCwd(member(field, "cwd"), p.Cwd)
}

// CheckPythonJSON says whether raw is one JSON value that CPython decodes: UTF-8, at most 900 levels deep, no integer of more than 4300 digits.
// Keys may repeat and surrogates may be alone. The error is a *FieldError at field, with [ErrNotJSON] beneath unless
// the text is JSON and merely too deep or too long.
func CheckPythonJSON(field string, raw jsontext.Value) error {
	return orNil(checkPythonJSON(field, raw))
}

func checkPythonJSON(field string, raw jsontext.Value) *FieldError {
	if !utf8.Valid(raw) {
		return notJSONf(field, "not UTF-8")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), permissive...)
	values := 0
	for {
		token := dec.PeekKind()
		if token == '0' {
			number, err := dec.ReadValue()
			if err != nil {
				return pythonJSONFault(field, err)
			}
			if digits := integerDigits(number); digits > longestInteger {
				return faultf(field, "an integer of %d digits at %s, at most %d", digits, where(dec), longestInteger)
			}
		} else if _, err := dec.ReadToken(); err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && values == 1 {
				return nil
			}
			return pythonJSONFault(field, err)
		}
		switch depth := dec.StackDepth(); {
		case depth > deepestInputs:
			return faultf(field, "more than %d levels deep", deepestInputs)
		case depth == 0:
			if values++; values > 1 {
				return notJSONf(field, "more than one JSON value")
			}
		}
	}
}

func pythonJSONFault(field string, err error) *FieldError {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || syntactic.Err == nil {
		return notJSONf(field, "not JSON: %s", printable(err.Error()))
	}
	return notJSONf(field, "not JSON: %s at byte %d", printable(syntactic.Err.Error()), syntactic.ByteOffset)
}

// where is the JSON pointer of what was read last.
func where(dec *jsontext.Decoder) string {
	if pointer := string(dec.StackPointer()); pointer != "" {
		return quote(pointer)
	}
	return "the top"
}

// integerDigits counts the digits of a whole number; a number with a fraction or an exponent has none that matter, it becomes a double.
func integerDigits(number []byte) int {
	if bytes.ContainsAny(number, ".eE") {
		return 0
	}
	return len(bytes.TrimPrefix(number, []byte("-")))
}

// cutInputs finds the value of the top-level key "inputs" in a body and puts a 0 in its place, so that the rest can be decoded strictly while
// the inputs stay the bytes that came. A body that can't be read so far comes back whole: the strict decoder finds the fault then.
func cutInputs(body []byte) (rest []byte, inputs jsontext.Value) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), permissive...)
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return body, nil
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return body, nil
		}
		wanted := name.String() == "inputs"
		value, err := dec.ReadValue()
		if err != nil {
			return body, nil
		}
		if wanted {
			end := int(dec.InputOffset())
			inputs = bytes.Clone(value)
			rest = append(rest, body[:end-len(value)]...)
			rest = append(rest, '0')
			// A second "inputs" is still there, for the strict decoder to refuse.
			return append(rest, body[end:]...), inputs
		}
	}
	return body, nil
}
