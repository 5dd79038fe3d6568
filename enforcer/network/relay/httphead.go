package relay

import (
	"bytes"
	"strconv"
	"strings"
)

// httpHead is the head of an HTTP/1 request, RFC 9112, as far as it says where the request goes and where it ends.
type httpHead struct {
	method, target string
	minor          int // the version is 1.minor
	// host is the Host field, of which there is at most one.
	host    host
	hasHost bool
	// length is Content-Length, -1 without one.
	length  int64
	chunked bool
	// upgrade are the protocols that Upgrade asks for.
	upgrade []string
	fields  []field
}

// field has its name in lower case and as it was written.
type field struct{ name, written, value string }

// mostFields bounds the fields of a head.
const mostFields = 256

const headEnd = "\r\n\r\n"

// parseHead reads a head that b begins with, and says how many bytes it has. It is errShort until the head is complete.
func parseHead(b []byte) (*httpHead, int, error) {
	end := bytes.Index(b, []byte(headEnd))
	seen := b
	if end >= 0 {
		seen = b[:end+len(headEnd)]
	}
	if loneLine(seen) {
		return nil, 0, refuse(reasonBadHTTP)
	}
	head := &httpHead{length: -1}
	if line, _, complete := bytes.Cut(seen, []byte("\r\n")); complete && !head.parseRequestLine(string(line)) {
		return nil, 0, refuse(reasonBadHTTP)
	}
	switch {
	case end < 0 && len(b) >= mostLooked, end+len(headEnd) > mostLooked:
		return nil, 0, refuse(reasonLongHTTP)
	case end < 0:
		return nil, 0, errShort
	}
	lines := strings.Split(string(b[:end]), "\r\n")
	if len(lines) > mostFields {
		return nil, 0, refuse(reasonBadHTTP)
	}
	for _, line := range lines[1:] {
		f, ok := parseField(line)
		if !ok {
			return nil, 0, refuse(reasonBadHTTP)
		}
		head.fields = append(head.fields, f)
	}
	if err := head.readFields(); err != nil {
		return nil, 0, err
	}
	return head, end + len(headEnd), nil
}

// loneLine: a line feed without its carriage return, which some servers take for the end of a line, or a return without its feed.
func loneLine(b []byte) bool {
	for i, c := range b {
		if c == '\n' && (i == 0 || b[i-1] != '\r') || c == '\r' && i+1 < len(b) && b[i+1] != '\n' {
			return true
		}
	}
	return false
}

func (h *httpHead) parseRequestLine(line string) bool {
	method, rest, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || !isTokens(method) || target == "" || !isText(target) || strings.ContainsAny(target, " \t") {
		return false
	}
	switch version {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return false
	}
	h.method, h.target = method, target
	return true
}

// parseField reads "name: value". A line that begins with space would continue the one before it for some and not for others.
func parseField(line string) (field, bool) {
	name, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	return field{strings.ToLower(name), name, value}, ok && isTokens(name) && isText(value)
}

func (h *httpHead) readFields() error {
	hosts, lengths, encodings := 0, 0, 0
	for _, f := range h.fields {
		switch f.name {
		case "host":
			said, ok := parseHost(f.value)
			if !ok {
				return refuse(reasonBadHTTP)
			}
			h.host = said
			hosts++
		case "content-length":
			length, err := strconv.ParseUint(f.value, 10, 62)
			if err != nil || f.value[0] == '+' {
				return refuse(reasonFraming)
			}
			h.length = int64(length)
			lengths++
		case "transfer-encoding":
			if !strings.EqualFold(f.value, "chunked") {
				return refuse(reasonFraming)
			}
			h.chunked = true
			encodings++
		case "upgrade":
			for protocol := range strings.SplitSeq(f.value, ",") {
				h.upgrade = append(h.upgrade, strings.ToLower(strings.TrimSpace(protocol)))
			}
		}
	}
	h.hasHost = hosts == 1
	switch {
	case hosts > 1:
		return refuse(reasonBadHTTP)
	case lengths+encodings > 1, h.chunked && h.minor == 0:
		return refuse(reasonFraming)
	}
	return nil
}

// authority is the host of an absolute-form target, and what is behind it.
func (h *httpHead) authority() (said host, scheme, path string, ok bool) {
	scheme, rest, found := strings.Cut(h.target, "://")
	if !found {
		return host{}, "", "", false
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	said, ok = parseHost(authority)
	return said, strings.ToLower(scheme), path, ok
}

// isToken is tchar of RFC 9110 §5.6.2.
func isToken(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isTokens(text string) bool {
	for i := range len(text) {
		if !isToken(text[i]) {
			return false
		}
	}
	return text != ""
}

// isText has no control character but tab.
func isText(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' && text[i] != '\t' || text[i] == 0x7f {
			return false
		}
	}
	return true
}
