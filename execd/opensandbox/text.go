package opensandbox

import (
	"strconv"
	"unicode/utf8"
)

// appendText appends a JSON string. What some client takes for the end of a line is escaped: U+0085, U+2028 and U+2029 besides all control characters. What
// isn't UTF-8 becomes U+FFFD.
func appendText(out []byte, text []byte) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	begin := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		wide := r != 0x85 && r != 0x2028 && r != 0x2029 && c >= utf8.RuneSelf
		if wide && !(r == utf8.RuneError && size == 1) {
			i += size
			continue
		}
		out = append(out, text[begin:i]...)
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case wide:
			out = append(out, "\uFFFD"...)
		default:
			out = append(out, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		}
		i += size
		begin = i
	}
	return append(append(out, text[begin:]...), '"')
}

// encodedSize is at most how many bytes a text has as a JSON string, without its quotes.
func encodedSize(text []byte) int {
	size := 0
	for _, c := range text {
		switch {
		case c < ' ' || c == 0x7f || c >= utf8.RuneSelf:
			size += 6
		case c == '"' || c == '\\':
			size += 2
		default:
			size++
		}
	}
	return size
}

func appendInt(out []byte, n int64) []byte { return strconv.AppendInt(out, n, 10) }
