package relay

import (
	"bytes"
	"errors"
	"strings"
)

// mostLooked bounds what is held back to be judged: a TLS hello, an HTTP head, a header block of HTTP/2.
const mostLooked = 16 << 10

// look judges what a client sends, before it may pass. scan gets everything that hasn't passed yet, again and again as more comes.
type look interface {
	scan(b []byte) (step, error)
}

// step is what a look says of the bytes it has seen.
type step struct {
	// pass: so many bytes may pass. skip: so many more behind them, unseen.
	pass int
	skip int64
	// done: everything else may pass as well.
	done bool
	// answer: nothing more may pass until the server has answered what has passed; then next says how it goes on.
	answer func(switched bool) (next look)
}

// firstLook is for the first bytes of a connection: it finds out what they are and who judges them.
type firstLook struct {
	c    *conn
	then look
}

func (l *firstLook) scan(b []byte) (step, error) {
	if l.then == nil {
		kind, err := sniff(b, l.c.target.port)
		switch {
		case errors.Is(err, errShort):
			return step{}, nil
		case err != nil:
			return step{}, err
		}
		switch kind {
		case speaksTLS:
			l.then = &tlsLook{c: l.c}
		case speaksHTTP:
			l.then = &httpLook{c: l.c}
		case speaksHTTP2:
			l.then = newHTTP2Look(l.c)
		default:
			return step{pass: len(b), done: true}, nil
		}
	}
	return l.then.scan(b)
}

// speaks is what a connection's first bytes are.
type speaks int

const (
	speaksElse speaks = iota
	speaksTLS
	speaksHTTP
	speaksHTTP2
)

const (
	portHTTPS = 443
	portHTTP  = 80
)

// The preface of HTTP/2 (RFC 9113 §3.4), and what PROXY protocol headers begin with.
const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// sniff says what the first bytes are, or errShort. In doubt it is what the server could take them for: bytes that a lenient HTTP server understands go
// to the strict parser, which refuses them, rather than past it.
func sniff(b []byte, port uint16) (speaks, error) {
	if len(b) == 0 {
		return 0, errShort
	}
	kind, err := sniffAny(b)
	switch {
	case port == portHTTPS && (kind != speaksTLS || err != nil && !errors.Is(err, errShort)):
		return 0, refuse(reasonNotTLS)
	case err != nil:
		return kind, err
	case port == portHTTP && kind == speaksElse:
		return 0, refuse(reasonNotHTTP)
	}
	return kind, nil
}

func sniffAny(b []byte) (speaks, error) {
	if b[0] == recordHandshake {
		switch {
		case len(b) == 1:
			return speaksTLS, errShort
		case b[1] == 3:
			return speaksTLS, nil
		}
		return speaksElse, nil
	}
	for _, header := range []string{proxyV1, proxyV2} {
		if begins, whole := beginsLike(b, header); whole {
			return speaksElse, refuse(reasonPROXY)
		} else if begins {
			return speaksElse, errShort
		}
	}
	if begins, whole := beginsLike(b, preface); whole {
		return speaksHTTP2, nil
	} else if begins {
		return speaksHTTP2, errShort
	}
	return sniffLine(b)
}

// beginsLike: b is the beginning of text, or begins with all of it.
func beginsLike(b []byte, text string) (begins, whole bool) {
	n := min(len(b), len(text))
	begins = string(b[:n]) == text[:n]
	return begins, begins && n == len(text)
}

// blanks are what RFC 9112 §3 lets a server take for a space in a request line.
const blanks = " \t\v\f\r"

// sniffLine tells HTTP from other protocols by its first line. Empty lines and blanks before it are passed over, as servers do.
func sniffLine(b []byte) (speaks, error) {
	text := bytes.TrimLeft(b, blanks+"\n")
	line, _, complete := bytes.Cut(text, []byte{'\n'})
	word := line
	if i := bytes.IndexAny(line, blanks); i >= 0 {
		word = line[:i]
	}
	for _, c := range word {
		if !isToken(c) {
			return speaksElse, nil
		}
	}
	for _, c := range line {
		if (c < ' ' || c == 0x7f) && strings.IndexByte(blanks, c) < 0 { // no server takes these in a request line
			return speaksElse, nil
		}
	}
	switch {
	case complete && likeHTTP(line):
		return speaksHTTP, nil
	case complete:
		return speaksElse, nil
	case len(b) >= mostLooked:
		return speaksElse, refuse(reasonLongHTTP)
	}
	return speaksElse, errShort
}

// likeHTTP: the line says a version of HTTP, or is a request of before there were versions.
func likeHTTP(line []byte) bool {
	fields := strings.Fields(string(line))
	if len(fields) < 2 {
		return false
	}
	if strings.Contains(strings.ToUpper(string(line)), "HTTP/") {
		return true
	}
	switch fields[0] {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE":
		return fields[1][0] == '/' || fields[1][0] == '*' || strings.Contains(fields[1], "://")
	}
	return false
}
