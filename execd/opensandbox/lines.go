package opensandbox

import (
	"bytes"
	"unicode/utf8"
)

// mostLine is how much of a line is one event; beyond it a line is cut, at a character.
const mostLine = 2 << 20

// lines cuts a stream at LF, CR and CRLF, each of which ends a line once, also when it comes in pieces. A line without anything in it is "\n".
type lines struct {
	// begun is the line that has no end yet. After wasCR a LF that comes first belongs to the CR that has ended a line.
	begun []byte
	wasCR bool
	emit  func(text []byte)
}

var newline = []byte("\n")

// write takes the next piece.
func (l *lines) write(data []byte) {
	for len(data) > 0 {
		if l.wasCR {
			l.wasCR = false
			if data[0] == '\n' {
				data = data[1:]
				continue
			}
		}
		at := lineEnd(data)
		if at < 0 {
			l.grow(data)
			return
		}
		l.wasCR = data[at] == '\r'
		if len(l.begun) > 0 {
			l.grow(data[:at])
			if len(l.begun) > 0 {
				l.emit(l.begun)
			}
			l.begun = l.begun[:0]
		} else if at > 0 {
			l.emit(data[:at])
		} else {
			l.emit(newline)
		}
		data = data[at+1:]
	}
}

func lineEnd(data []byte) int {
	lf := bytes.IndexByte(data, '\n')
	if lf < 0 {
		return bytes.IndexByte(data, '\r')
	}
	if cr := bytes.IndexByte(data[:lf], '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// grow adds to the line that has begun, and hands on what is too long to wait for the rest.
func (l *lines) grow(data []byte) {
	l.begun = append(l.begun, data...)
	for len(l.begun) > mostLine {
		cut := mostLine
		for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(l.begun[cut]); back++ {
			cut--
		}
		l.emit(l.begun[:cut])
		l.begun = append(l.begun[:0], l.begun[cut:]...)
	}
}

// end hands on a last line that has no end.
func (l *lines) end() {
	if len(l.begun) > 0 {
		l.emit(l.begun)
		l.begun = nil
	}
}
