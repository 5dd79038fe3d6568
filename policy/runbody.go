package policy

import (
	"encoding/json/jsontext"
	"fmt"
	"io"
)

// RunBody takes the body of POST /v1/run as it comes, in pieces: the value of "inputs" goes to a writer as the text that it is, judged on its way
// ([JSONScanner]), and only the rest is kept, for [RunBody.Parse] to read as strictly as ever. So the memory that a body takes doesn't depend on its inputs.
type RunBody struct {
	// Inputs gets the text of the inputs. Its error ends the body.
	Inputs io.Writer
	// MostInputs and MostRest bound the two, in bytes; 0: nothing does.
	MostInputs, MostRest int64

	rest    []byte
	scanner JSONScanner
	taken   int64
	state   bodyState
	// key is the text of a key, still in quotes; depth is how deep a value that isn't the inputs is, escaped that a backslash was before.
	key     []byte
	depth   int
	escaped bool
	found   bool
}

// TooLongError says that a part of a body is longer than it may be.
type TooLongError struct {
	// Field is "inputs", or "" for all the rest.
	Field string
	Most  int64
}

func (e *TooLongError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("the body has more than %d bytes beside its inputs", e.Most)
	}
	return fmt.Sprintf("%s: more than %d bytes", e.Field, e.Most)
}

// bodyState is where in the outermost object the body is. What can't be understood goes to the rest, where the strict decoder says what is wrong.
type bodyState uint8

const (
	bodyStart  bodyState = iota // before the object
	bodyMember                  // before a key
	bodyKey                     // inside one
	bodyColon                   // after one
	bodyValue                   // before its value
	bodyInputs                  // inside the inputs
	bodyOther                   // inside another value
	bodyString                  // inside a string of one
	bodyRest                    // whatever comes
)

// longestKey is more than "inputs" takes with each letter escaped.
const longestKey = 64

// Rest is what is kept.
func (b *RunBody) Rest() []byte { return b.rest }

// Write takes the next piece of the body. The error is a *FieldError, a *TooLongError, or that of Inputs.
func (b *RunBody) Write(piece []byte) (n int, err error) {
	for n < len(piece) {
		if b.state == bodyInputs {
			took, err := b.takeInputs(piece[n:])
			if n += took; err != nil {
				return n, err
			}
			continue
		}
		from := n
		for n < len(piece) && b.state != bodyInputs {
			if b.state == bodyRest {
				n = len(piece)
				break
			}
			if b.step(piece[n]) {
				n++
			}
		}
		b.rest = append(b.rest, piece[from:n]...)
		if b.MostRest > 0 && int64(len(b.rest)) > b.MostRest {
			return n, &TooLongError{Most: b.MostRest}
		}
		if b.state == bodyInputs {
			if b.found {
				return n, faultf("inputs", "duplicate key")
			}
			b.found = true
			b.rest = append(b.rest, '0') // in place of the value
		}
	}
	return n, nil
}

func (b *RunBody) takeInputs(piece []byte) (int, error) {
	b.scanner.Field = "inputs"
	n, fault := b.scanner.Scan(piece)
	b.taken += int64(n)
	if b.MostInputs > 0 && b.taken > b.MostInputs {
		return n, &TooLongError{"inputs", b.MostInputs}
	}
	if fault != nil {
		return n, fault
	}
	if b.scanner.Done() {
		b.state = bodyMember
	}
	_, err := b.Inputs.Write(piece[:n])
	return n, err
}

// step looks at one byte of what isn't inputs, and says whether it has taken it.
func (b *RunBody) step(c byte) bool {
	switch b.state {
	case bodyStart:
		b.expect(c, '{', bodyMember)
	case bodyMember:
		switch {
		case c == ',' || isBlank(c):
		case c == '"':
			b.state, b.key = bodyKey, append(b.key[:0], c)
		default: // the end of the object, or none of JSON
			b.state = bodyRest
		}
	case bodyKey:
		if len(b.key) < longestKey {
			b.key = append(b.key, c)
		}
		switch {
		case b.escaped:
			b.escaped = false
		case c == '\\':
			b.escaped = true
		case c == '"':
			b.state = bodyColon
		}
	case bodyColon:
		b.expect(c, ':', bodyValue)
	case bodyValue:
		if isBlank(c) {
			return true
		}
		if b.state = bodyOther; b.isInputs() {
			b.state = bodyInputs
		}
		return false
	case bodyOther:
		b.other(c)
	case bodyString:
		switch {
		case b.escaped:
			b.escaped = false
		case c == '\\':
			b.escaped = true
		case c == '"':
			b.state = bodyOther
		}
	}
	return true
}

func (b *RunBody) expect(c, wanted byte, next bodyState) {
	switch {
	case c == wanted:
		b.state = next
	case !isBlank(c):
		b.state = bodyRest
	}
}

// other follows a value that isn't the inputs to its end.
func (b *RunBody) other(c byte) {
	switch c {
	case '"':
		b.state = bodyString
	case '{', '[':
		b.depth++
	case '}', ']':
		if b.depth--; b.depth < 0 {
			b.state = bodyRest
		}
	case ',':
		if b.depth == 0 {
			b.state = bodyMember
		}
	}
}

func (b *RunBody) isInputs() bool {
	name, err := jsontext.AppendUnquote(nil, b.key)
	return err == nil && string(name) == "inputs"
}

// Parse reads the body, which is over. inputs or bulk is what was written to Inputs: the text, or what is known of it. The error is a *FieldError.
func (b *RunBody) Parse(inputs jsontext.Value, bulk *Bulk) (Request, ExecOptions, error) {
	if b.state == bodyInputs {
		// A number, which only its follower ends, has none: an error in any case.
		return Request{}, ExecOptions{}, notJSONf("inputs", "not JSON: the body ends in the middle of them")
	}
	if !b.found {
		inputs, bulk = nil, nil
	}
	return parseRunBody(b.rest, inputs, bulk)
}
