package relay

import (
	"errors"

	"golang.org/x/net/http2/hpack"
)

// http2Look judges :authority of each stream of HTTP/2 in clear, RFC 9113. Frames that carry no header block pass without being held.
type http2Look struct {
	c *conn
	// greeted: the preface has passed.
	greeted bool
	// last is the highest stream so far: a header block of a higher one is a request, of another one its trailers.
	last    uint32
	decoder *hpack.Decoder
	// said is what the block at hand says.
	said block
}

// block is a decoded header block.
type block struct {
	hosts      []string // :authority and host
	pseudo     bool
	method     string
	protocol   bool // :protocol, of RFC 8441
	path       string
	impossible bool // what no request has
}

// Frame types, flags and bounds of RFC 9113.
const (
	frameHeader       = 9
	frameHeaders      = 1
	framePushPromise  = 5
	frameContinuation = 9
	flagEndHeaders    = 0x4
	flagPadded        = 0x8
	flagPriority      = 0x20
	// mostTable bounds the dynamic table that a client may ask for. Its server says less or it doesn't get it.
	mostTable = 64 << 10
)

func newHTTP2Look(c *conn) *http2Look {
	l := &http2Look{c: c}
	l.decoder = hpack.NewDecoder(4096, l.field)
	l.decoder.SetAllowedMaxDynamicTableSize(mostTable)
	l.decoder.SetMaxStringLength(mostLooked)
	return l
}

func (l *http2Look) scan(b []byte) (step, error) {
	s := step{}
	if !l.greeted {
		begins, whole := beginsLike(b, preface)
		switch {
		case !begins:
			return s, refuse(reasonBadHTTP2)
		case !whole:
			return s, nil
		}
		l.greeted, s.pass = true, len(preface)
	}
	for len(b)-s.pass >= frameHeader {
		n, skip, err := l.frame(b[s.pass:])
		if errors.Is(err, errShort) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.pass += n
		if skip > 0 {
			s.skip = skip
			return s, nil
		}
	}
	return s, nil
}

// frame takes one frame, or a header block with all its continuations.
func (l *http2Look) frame(b []byte) (pass int, skip int64, err error) {
	length, kind, flags, stream := parseFrame(b)
	switch kind {
	case framePushPromise, frameContinuation: // a client promises nothing; what continues has no beginning
		return 0, 0, refuse(reasonBadHTTP2)
	case frameHeaders:
	default:
		return frameHeader, int64(length), nil
	}
	fragment, n, err := payload(b)
	if err != nil {
		return 0, 0, err
	}
	fragment, ok := unpad(fragment, flags)
	if !ok || stream%2 == 0 {
		return 0, 0, refuse(reasonBadHTTP2)
	}
	whole := append([]byte(nil), fragment...)
	for flags&flagEndHeaders == 0 {
		if len(b[n:]) < frameHeader {
			return 0, 0, short(b)
		}
		var same uint32
		_, kind, flags, same = parseFrame(b[n:])
		if kind != frameContinuation || same != stream {
			return 0, 0, refuse(reasonBadHTTP2)
		}
		fragment, more, err := payload(b[n:])
		if errors.Is(err, errShort) {
			return 0, 0, short(b)
		}
		if err != nil {
			return 0, 0, err
		}
		whole, n = append(whole, fragment...), n+more
	}
	return n, 0, l.block(stream, whole)
}

// short is errShort, or the end of patience.
func short(b []byte) error {
	if len(b) >= mostLooked {
		return refuse(reasonLongHTTP)
	}
	return errShort
}

func parseFrame(b []byte) (length int, kind, flags byte, stream uint32) {
	return int(b[0])<<16 | int(b[1])<<8 | int(b[2]), b[3], b[4], (uint32(b[5])<<24 | uint32(b[6])<<16 | uint32(b[7])<<8 | uint32(b[8])) & 0x7fffffff
}

// payload is the frame that b begins with, without its header, and its length with it.
func payload(b []byte) ([]byte, int, error) {
	length, _, _, _ := parseFrame(b)
	whole := frameHeader + length
	if whole > mostLooked {
		return nil, 0, refuse(reasonLongHTTP)
	}
	if len(b) < whole {
		return nil, 0, errShort
	}
	return b[frameHeader:whole], whole, nil
}

// unpad takes padding and priority off a HEADERS payload.
func unpad(b []byte, flags byte) ([]byte, bool) {
	padding := 0
	if flags&flagPadded != 0 {
		if len(b) == 0 {
			return nil, false
		}
		padding, b = int(b[0]), b[1:]
	}
	if flags&flagPriority != 0 {
		if len(b) < 5 {
			return nil, false
		}
		b = b[5:]
	}
	if len(b) < padding {
		return nil, false
	}
	return b[:len(b)-padding], true
}

// block decodes a header block and judges it. Blocks are decoded in the order they pass, each once: they change the table that later ones refer to.
func (l *http2Look) block(stream uint32, encoded []byte) error {
	l.said = block{}
	if _, err := l.decoder.Write(encoded); err != nil {
		return refuse(reasonBadHTTP2)
	}
	if err := l.decoder.Close(); err != nil || l.said.impossible {
		return refuse(reasonBadHTTP2)
	}
	if stream <= l.last {
		if l.said.pseudo || len(l.said.hosts) > 0 {
			return refuse(reasonBadHTTP2)
		}
		return nil
	}
	l.last = stream
	switch {
	case l.said.method == "CONNECT" && !l.said.protocol:
		return refuse(reasonConnect)
	case l.said.path == "" || l.said.path[0] != '/' && l.said.path != "*":
		return refuse(reasonBadHTTP2)
	case len(l.said.hosts) == 0:
		return refuse(reasonNoHost)
	}
	for _, text := range l.said.hosts {
		said, ok := parseHost(text)
		if !ok {
			return refuse(reasonBadHTTP2)
		}
		if err := l.c.fits(said, reasonOtherHost); err != nil {
			return err
		}
	}
	return nil
}

// field is called by the decoder for each field. Names are in lower case: RFC 9113 §8.2. All that name a host must fit, however many there are.
func (l *http2Look) field(f hpack.HeaderField) {
	l.said.pseudo = l.said.pseudo || f.IsPseudo()
	switch f.Name {
	case ":authority", "host":
		l.said.hosts = append(l.said.hosts, f.Value)
	case ":method":
		l.said.impossible = l.said.impossible || l.said.method != "" || f.Value == ""
		l.said.method = f.Value
	case ":path":
		l.said.impossible = l.said.impossible || l.said.path != "" || f.Value == ""
		l.said.path = f.Value
	case ":protocol":
		l.said.protocol = true
	}
	for i := range len(f.Name) {
		if f.Name[i] >= 'A' && f.Name[i] <= 'Z' {
			l.said.impossible = true
		}
	}
}
