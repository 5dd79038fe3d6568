package workloads

import (
	"math"
	"strings"
	"unicode"
)

// pythonInt is Python's int(text): blanks around it, a sign, digits of any script, single underscores between them. What doesn't fit becomes the
// largest or smallest number there is.
func pythonInt(text string) (value int64, ok bool) {
	text = strings.TrimFunc(text, unicode.IsSpace)
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	digits := 0
	under := true // as if one stood before: none may be first
	for _, r := range text {
		if r == '_' {
			if under {
				return 0, false
			}
			under = true
			continue
		}
		digit, known := decimal(r)
		if !known {
			return 0, false
		}
		if digits, under = digits+1, false; value > (math.MaxInt64-digit)/10 {
			value = math.MaxInt64 // and so it stays
			continue
		}
		value = value*10 + digit
	}
	if under || digits == 0 {
		return 0, false
	}
	if negative {
		value = -value
	}
	return value, true
}

// decimal is the value of a decimal digit. Unicode has the digits of a script in order, beginning with zero.
func decimal(r rune) (int64, bool) {
	if '0' <= r && r <= '9' {
		return int64(r - '0'), true
	}
	for _, block := range unicode.Nd.R16 {
		if rune(block.Lo) <= r && r <= rune(block.Hi) {
			return int64(r-rune(block.Lo)) % 10, true
		}
	}
	for _, block := range unicode.Nd.R32 {
		if rune(block.Lo) <= r && r <= rune(block.Hi) {
			return int64(r-rune(block.Lo)) % 10, true
		}
	}
	return 0, false
}
