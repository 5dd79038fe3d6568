package relay

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// httpLook judges each request of an HTTP/1 connection, and follows bodies to their ends, so that what it takes for a head is one.
type httpLook struct {
	c     *conn
	state httpState
	// served: a request has passed. single: nothing may follow it.
	served, single bool
}

type httpState int

const (
	atHead httpState = iota
	atChunk
	atChunkEnd
	atTrailer
)

// longestChunkLine is for a size, without extensions, which nobody sends and servers disagree about; trailers have as much as a head.
const longestChunkLine = 18

func (l *httpLook) scan(b []byte) (step, error) {
	s := step{}
	for len(b) > s.pass {
		n, skip, answer, err := l.one(b[s.pass:])
		if errors.Is(err, errShort) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.pass += n
		if skip > 0 || answer != nil {
			s.skip, s.answer = skip, answer
			return s, nil
		}
	}
	return s, nil
}

// one takes what the state says comes next.
func (l *httpLook) one(b []byte) (pass int, skip int64, answer func(bool) look, err error) {
	switch l.state {
	case atChunk:
		size, n, err := parseChunkSize(b)
		if err != nil {
			return 0, 0, nil, err
		}
		l.state = atChunkEnd
		if size == 0 {
			l.state = atTrailer
		}
		return n, size, nil, nil
	case atChunkEnd:
		if begins, whole := beginsLike(b, "\r\n"); whole {
			l.state = atChunk
			return 2, 0, nil, nil
		} else if begins {
			return 0, 0, nil, errShort
		}
		return 0, 0, nil, refuse(reasonFraming)
	case atTrailer:
		n, err := parseTrailer(b)
		if err == nil {
			l.state = atHead
		}
		return n, 0, nil, err
	}
	if l.served && l.single {
		return 0, 0, nil, refuse(reasonSecond)
	}
	return l.head(b)
}

func (l *httpLook) head(b []byte) (pass int, skip int64, answer func(bool) look, err error) {
	head, n, err := parseHead(b)
	if err != nil {
		return 0, 0, nil, err
	}
	if err := l.fits(head); err != nil {
		return 0, 0, nil, err
	}
	first := !l.served
	l.served = true
	if len(head.upgrade) > 0 {
		answer, err := l.upgrade(head, first)
		return n, 0, answer, err
	}
	return n, l.body(head), nil, nil
}

// body says how many bytes follow as they are, and sets what comes behind them.
func (l *httpLook) body(head *httpHead) int64 {
	l.state = atHead
	if head.chunked {
		l.state = atChunk
	}
	return max(head.length, 0)
}

// fits judges a head: Host, and an absolute-form target, which goes before Host for servers that know it.
func (l *httpLook) fits(head *httpHead) error {
	switch {
	case head.method == "CONNECT":
		return refuse(reasonConnect)
	case !head.hasHost: // the server would choose one
		return refuse(reasonNoHost)
	}
	if err := l.c.fits(head.host, reasonOtherHost); err != nil {
		return err
	}
	if head.target[0] == '/' || head.target == "*" {
		return nil
	}
	said, scheme, _, ok := head.authority()
	if !ok || scheme != "http" {
		return refuse(reasonBadHTTP)
	}
	if said.name != head.host.name || said.addr != head.host.addr {
		return refuse(reasonOtherHost)
	}
	return l.c.fits(said, reasonOtherHost)
}

// upgrade is for a request that may turn the connection into something else. Only the server's answer says whether it did, and only the first answer
// can be found without following all of them.
func (l *httpLook) upgrade(head *httpHead, first bool) (func(bool) look, error) {
	http2 := slices.Contains(head.upgrade, "h2c")
	switch {
	case !first || l.c.in.Load() > 0:
		return nil, refuse(reasonUpgrade)
	case head.length > 0 || head.chunked: // which side of the switch a body is on would be a guess
		return nil, refuse(reasonFraming)
	case http2 && len(head.upgrade) > 1, slices.ContainsFunc(head.upgrade, func(p string) bool { return strings.HasPrefix(p, "http/") }):
		return nil, refuse(reasonUpgrade)
	}
	return func(switched bool) look {
		switch {
		case !switched:
			return l
		case http2:
			return newHTTP2Look(l.c)
		}
		return passLook{}
	}, nil
}

// passLook has nothing against anything.
type passLook struct{}

func (passLook) scan(b []byte) (step, error) { return step{pass: len(b), done: true}, nil }

// parseChunkSize reads "1a2b\r\n".
func parseChunkSize(b []byte) (int64, int, error) {
	line, _, complete := bytes.Cut(b, []byte("\r\n"))
	digits := line
	if !complete {
		digits = bytes.TrimSuffix(line, []byte("\r"))
	}
	for _, c := range digits {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return 0, 0, refuse(reasonFraming)
		}
	}
	switch {
	case len(line) >= longestChunkLine:
		return 0, 0, refuse(reasonFraming)
	case !complete:
		return 0, 0, errShort
	}
	size, err := strconv.ParseUint(string(digits), 16, 62)
	if err != nil {
		return 0, 0, refuse(reasonFraming)
	}
	return int64(size), len(line) + 2, nil
}

// parseTrailer reads fields behind the last chunk, up to an empty line. None of them may be one that says where a request goes or ends.
func parseTrailer(b []byte) (int, error) {
	for at := 0; ; {
		line, _, complete := bytes.Cut(b[at:], []byte("\r\n"))
		switch {
		case loneLine(b[:min(len(b), at+len(line)+2)]):
			return 0, refuse(reasonBadHTTP)
		case !complete && len(b) >= mostLooked:
			return 0, refuse(reasonLongHTTP)
		case !complete:
			return 0, errShort
		}
		at += len(line) + 2
		if len(line) == 0 {
			return at, nil
		}
		f, ok := parseField(string(line))
		if !ok || f.name == "host" || f.name == "content-length" || f.name == "transfer-encoding" || f.name == "upgrade" {
			return 0, refuse(reasonBadHTTP)
		}
	}
}
