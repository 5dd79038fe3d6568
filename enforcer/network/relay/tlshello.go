package relay

import "errors"

// hello is what a ClientHello says that matters here: RFC 8446 §4.1.2, and what older versions have in common with it.
type hello struct {
	// serverName is as it was sent; empty: there was none.
	serverName string
	encrypted  bool // a form of ECH or its predecessor ESNI
	early      bool // early data may follow before the server has answered
}

const (
	recordHandshake   = 22
	recordChange      = 20
	recordAlert       = 21
	recordApplication = 23
	recordHeader      = 5
	longestRecord     = 1 << 14
	handshakeHello    = 1
	handshakeHeader   = 4
)

// Extensions by number.
const (
	extensionServerName = 0
	extensionEarlyData  = 42
)

// encryptedHello are the extensions that hide a name: ESNI, and ECH in the drafts that were deployed and as published.
var encryptedHello = map[uint16]bool{0xffce: true, 0xfe08: true, 0xfe09: true, 0xfe0a: true, 0xfe0d: true}

// errShort is that more bytes are needed.
var errShort = errors.New("relay: more bytes are needed")

// parseHello reads a ClientHello that b begins with, over as many records as it takes, and says how many bytes of b these are. It is errShort until
// the hello is complete. A record that isn't part of the hello, or that has more behind it, is an error: nobody sends that, and what it means differs.
func parseHello(b []byte) (hello, int, error) {
	var message []byte
	for at := 0; ; {
		fragment, err := handshakeRecord(b[at:])
		if errors.Is(err, errShort) && len(b) >= mostLooked {
			return hello{}, 0, refuse(reasonLongHello)
		}
		if err != nil {
			return hello{}, 0, err
		}
		at += recordHeader + len(fragment)
		switch {
		case at > mostLooked:
			return hello{}, 0, refuse(reasonLongHello)
		case message == nil:
			message = fragment[:len(fragment):len(fragment)] // mostly it is the only one; appending to it copies
		default:
			message = append(message, fragment...)
		}
		if message[0] != handshakeHello {
			return hello{}, 0, refuse(reasonBadHello)
		}
		if len(message) < handshakeHeader {
			continue
		}
		length := handshakeHeader + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		switch {
		case length > mostLooked:
			return hello{}, 0, refuse(reasonLongHello)
		case len(message) > length:
			return hello{}, 0, refuse(reasonBadHello)
		case len(message) == length:
			h, ok := parseHelloBody(message[handshakeHeader:])
			if !ok {
				return hello{}, 0, refuse(reasonBadHello)
			}
			return h, at, nil
		}
	}
}

// handshakeRecord is what the record that b begins with carries.
func handshakeRecord(b []byte) ([]byte, error) {
	// Each byte is judged as soon as it is there, so that what can't become a hello isn't waited for.
	if len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 {
		return nil, refuse(reasonBadHello)
	}
	if len(b) < recordHeader {
		return nil, errShort
	}
	length := int(b[3])<<8 | int(b[4])
	if length == 0 || length > longestRecord {
		return nil, refuse(reasonBadHello)
	}
	if len(b) < recordHeader+length {
		return nil, errShort
	}
	return b[recordHeader : recordHeader+length], nil
}

func parseHelloBody(b []byte) (hello, bool) {
	r := reader{rest: b}
	version := r.take(2)
	r.take(32) // random
	session := r.vector(1)
	ciphers := r.vector(2)
	compression := r.vector(1)
	if r.bad || version[0] != 3 || len(session) > 32 || len(ciphers) < 2 || len(ciphers)%2 != 0 || len(compression) == 0 {
		return hello{}, false
	}
	if len(r.rest) == 0 { // before extensions there were none
		return hello{}, true
	}
	extensions := reader{rest: r.vector(2)}
	if r.bad || len(r.rest) != 0 {
		return hello{}, false
	}
	var h hello
	seen := map[uint16]bool{}
	for len(extensions.rest) > 0 {
		kind := extensions.number()
		data := extensions.vector(2)
		if extensions.bad || seen[kind] {
			return hello{}, false
		}
		seen[kind] = true
		switch {
		case kind == extensionServerName:
			name, ok := parseServerName(data)
			if !ok {
				return hello{}, false
			}
			h.serverName = name
		case kind == extensionEarlyData:
			h.early = true
		case encryptedHello[kind]:
			h.encrypted = true
		}
	}
	return h, true
}

// parseServerName reads RFC 6066 §3: a list, which has exactly one name since nothing else was ever defined.
func parseServerName(data []byte) (string, bool) {
	outer := reader{rest: data}
	list := reader{rest: outer.vector(2)}
	kind := list.take(1)
	name := list.vector(2)
	if outer.bad || list.bad || len(outer.rest) != 0 || len(list.rest) != 0 || kind[0] != 0 || len(name) == 0 {
		return "", false
	}
	return string(name), true
}

// reader takes a message of TLS apart. After the first thing that isn't there it is bad and gives nothing more.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) number() uint16 {
	b := r.take(2)
	if b == nil {
		return 0
	}
	return uint16(b[0])<<8 | uint16(b[1])
}

// vector takes a length of the given size and as many bytes.
func (r *reader) vector(size int) []byte {
	length := 0
	for _, b := range r.take(size) {
		length = length<<8 | int(b)
	}
	return r.take(length)
}
