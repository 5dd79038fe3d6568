package policy

import (
	"strconv"
	"unicode/utf8"
)

// JSONScanner judges a text that comes in pieces as [CheckPythonJSON] judges a whole one, by the same rules, in memory that doesn't depend on its length: of
// a string of a hundred megabytes, which a decoder of tokens would have to hold, it holds nothing. The two are held against each other by a fuzz test.
//
// The zero value is ready, with errors at the field "".
type JSONScanner struct {
	// Field is what errors name.
	Field string
	// NonFinite takes NaN, Infinity and -Infinity, which Python writes and JSON hasn't, as values, and counts them.
	NonFinite bool
	// NaNs, Infinities and NegativeInfinities count those tokens.
	NaNs, Infinities, NegativeInfinities int64

	state   scanState
	key     bool                // the string is one of an object
	open    [deepestInputs]byte // '{' or '[' of each level
	depth   int
	offset  int64
	literal string // what is still to come of one
	hex     int
	digits  int64
	partial [utf8.UTFMax]byte // the beginning of a character, from the piece before
	pending int
	begin   int64 // where the value begins
	string  bool  // it is one
}

type scanState uint8

const (
	scanValue    scanState = iota // a value
	scanFirst                     // a value, or the end of a list
	scanFirstKey                  // a key, or the end of an object
	scanKey                       // a key
	scanColon                     // the colon after one
	scanNext                      // a comma, or the end of list or object
	scanString                    // inside a string
	scanEscape                    // after a backslash
	scanHex                       // the digits of \u
	scanRune                      // the rest of a character
	scanLiteral                   // the rest of null, true and so on
	scanMinus                     // after a minus
	scanZero                      // after a leading 0
	scanInteger                   // digits
	scanPoint                     // after the point
	scanFraction                  // digits after it
	scanExponent                  // after e
	scanSign                      // after its sign
	scanPower                     // its digits
	scanDone                      // after the value
)

// Scan takes the next piece and says how much of it belongs to the value: less than all when the value is over. A number is over with the first byte that
// doesn't belong to it, or with [JSONScanner.End]. The error is a *FieldError; nothing is taken after one.
func (s *JSONScanner) Scan(piece []byte) (n int, err error) {
	for n < len(piece) && s.state != scanDone {
		took, fault := s.step(piece[n:])
		n += took
		s.offset += int64(took)
		if fault != nil {
			return n, fault
		}
	}
	return n, nil
}

// Done says that the value is over.
func (s *JSONScanner) Done() bool { return s.state == scanDone }

// Bounds are where the value begins, and what has been taken in all: its end, once it is over.
func (s *JSONScanner) Bounds() (begin, end int64) { return s.begin, s.offset }

// IsString says that the value is a string.
func (s *JSONScanner) IsString() bool { return s.string }

// End says that the text is over: an error, unless the value is.
func (s *JSONScanner) End() error {
	switch s.state {
	case scanDone:
		return nil
	case scanZero, scanInteger, scanFraction, scanPower:
		if s.depth == 0 {
			return orNil(s.numberEnds())
		}
	}
	return notJSONf(s.Field, "not JSON: it ends in the middle, after byte %d", s.offset)
}

// step takes at least one byte, unless there is a fault or a state to change.
func (s *JSONScanner) step(p []byte) (n int, fault *FieldError) {
	switch s.state {
	case scanString:
		return s.inString(p)
	case scanRune:
		return s.inRune(p)
	case scanEscape:
		return s.escape(p[0])
	case scanHex:
		if !isHex(p[0]) {
			return 0, s.wrong(p[0], "in a \\u escape")
		}
		if s.hex--; s.hex == 0 {
			s.state = scanString
		}
		return 1, nil
	case scanLiteral:
		if p[0] != s.literal[0] {
			return 0, s.wrong(p[0], "in a literal")
		}
		if s.literal = s.literal[1:]; s.literal == "" {
			s.valueEnds()
		}
		return 1, nil
	case scanMinus, scanZero, scanInteger, scanPoint, scanFraction, scanExponent, scanSign, scanPower:
		return s.number(p[0])
	}
	if isBlank(p[0]) {
		return 1, nil
	}
	return s.token(p[0])
}

// token takes the first byte of what comes between strings and numbers.
func (s *JSONScanner) token(c byte) (int, *FieldError) {
	switch {
	case s.state == scanColon:
		if c != ':' {
			return 0, s.wrong(c, "after a key, want a colon")
		}
		s.state = scanValue
	case s.state == scanFirstKey && c == '}', s.state == scanFirst && c == ']':
		s.close()
	case s.state == scanFirstKey || s.state == scanKey:
		if c != '"' {
			return 0, s.wrong(c, "where a key begins")
		}
		s.state, s.key = scanString, true
	case s.state == scanNext && c == ',':
		s.state = scanValue
		if s.open[s.depth-1] == '{' {
			s.state = scanKey
		}
	case s.state == scanNext:
		if c != s.open[s.depth-1]+2 { // '[' and ']', '{' and '}' are two apart
			return 0, s.wrong(c, "after a value")
		}
		s.close()
	default:
		return s.value(c)
	}
	return 1, nil
}

// value takes the first byte of a value.
func (s *JSONScanner) value(c byte) (int, *FieldError) {
	if s.depth == 0 {
		s.begin, s.string = s.offset, c == '"'
	}
	switch {
	case c == '{' || c == '[':
		if s.depth == deepestInputs {
			return 0, faultf(s.Field, "more than %d levels deep", deepestInputs)
		}
		s.open[s.depth] = c
		s.depth++
		if s.state = scanFirst; c == '{' {
			s.state = scanFirstKey
		}
	case c == '"':
		s.state, s.key = scanString, false
	case c == '-':
		s.state, s.digits = scanMinus, 0
	case c == '0':
		s.state, s.digits = scanZero, 1
	case '1' <= c && c <= '9':
		s.state, s.digits = scanInteger, 1
	case c == 'n':
		s.state, s.literal = scanLiteral, "ull"
	case c == 't':
		s.state, s.literal = scanLiteral, "rue"
	case c == 'f':
		s.state, s.literal = scanLiteral, "alse"
	case c == 'N' && s.NonFinite:
		s.NaNs++
		s.state, s.literal = scanLiteral, "aN"
	case c == 'I' && s.NonFinite:
		s.Infinities++
		s.state, s.literal = scanLiteral, "nfinity"
	default:
		return 0, s.wrong(c, "where a value begins")
	}
	return 1, nil
}

// number takes a byte of a number, or ends it.
func (s *JSONScanner) number(c byte) (int, *FieldError) {
	digit := '0' <= c && c <= '9'
	switch {
	case s.state == scanMinus && c == 'I' && s.NonFinite:
		s.NegativeInfinities++
		s.state, s.literal = scanLiteral, "nfinity"
	case s.state == scanMinus && c == '0':
		s.state, s.digits = scanZero, 1
	case s.state == scanMinus && digit, s.state == scanInteger && digit:
		s.state = scanInteger
		s.digits++
	case (s.state == scanZero || s.state == scanInteger) && c == '.':
		s.state, s.digits = scanPoint, 0
	case (s.state == scanPoint || s.state == scanFraction) && digit:
		s.state = scanFraction
	case (s.state == scanZero || s.state == scanInteger || s.state == scanFraction) && (c == 'e' || c == 'E'):
		s.state, s.digits = scanExponent, 0
	case s.state == scanExponent && (c == '+' || c == '-'):
		s.state = scanSign
	case (s.state == scanExponent || s.state == scanSign || s.state == scanPower) && digit:
		s.state = scanPower
	case s.state == scanMinus, s.state == scanPoint, s.state == scanExponent, s.state == scanSign:
		return 0, s.wrong(c, "in a number")
	default:
		return 0, s.numberEnds()
	}
	return 1, nil
}

func (s *JSONScanner) numberEnds() *FieldError {
	if s.digits > longestInteger {
		return faultf(s.Field, "an integer of %d digits before byte %d, at most %d", s.digits, s.offset, longestInteger)
	}
	s.valueEnds()
	return nil
}

// inString passes over what is plain.
func (s *JSONScanner) inString(p []byte) (n int, fault *FieldError) {
	for n < len(p) {
		switch c := p[n]; {
		case c == '"':
			if s.state = scanColon; !s.key {
				s.valueEnds()
			}
			return n + 1, nil
		case c == '\\':
			s.state = scanEscape
			return n + 1, nil
		case c < ' ':
			s.offset += int64(n)
			fault = s.wrong(c, "in a string")
			s.offset -= int64(n)
			return n, fault
		case c < utf8.RuneSelf:
			n++
		case !utf8.FullRune(p[n:]):
			s.pending = copy(s.partial[:], p[n:])
			s.state = scanRune
			return len(p), nil
		default:
			r, size := utf8.DecodeRune(p[n:])
			if r == utf8.RuneError && size == 1 {
				return n, notJSONf(s.Field, "not UTF-8")
			}
			n += size
		}
	}
	return n, nil
}

// inRune completes a character that two pieces share.
func (s *JSONScanner) inRune(p []byte) (int, *FieldError) {
	s.partial[s.pending] = p[0]
	s.pending++
	if !utf8.FullRune(s.partial[:s.pending]) {
		return 1, nil
	}
	if r, size := utf8.DecodeRune(s.partial[:s.pending]); r == utf8.RuneError && size == 1 {
		return 0, notJSONf(s.Field, "not UTF-8")
	}
	s.state = scanString
	return 1, nil
}

func (s *JSONScanner) escape(c byte) (int, *FieldError) {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.state = scanString
	case 'u':
		s.state, s.hex = scanHex, 4
	default:
		return 0, s.wrong(c, "after a backslash")
	}
	return 1, nil
}

func (s *JSONScanner) close() {
	s.depth--
	s.valueEnds()
}

func (s *JSONScanner) valueEnds() {
	if s.state = scanNext; s.depth == 0 {
		s.state = scanDone
	}
}

func (s *JSONScanner) wrong(c byte, where string) *FieldError {
	what := strconv.QuoteRune(rune(c))
	if c >= utf8.RuneSelf {
		what = "byte 0x" + strconv.FormatUint(uint64(c), 16)
	}
	return notJSONf(s.Field, "not JSON: %s %s, at byte %d", what, where, s.offset)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
