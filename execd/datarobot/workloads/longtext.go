package workloads

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// longText is from how many bytes on a string of a body is kept elsewhere: more than a variable of an environment may have.
const longText = 256 << 10

// lifted is a body whose long strings were taken out as they came: inputs are one of them. In their place is a word that nobody could foresee, so that no
// string that a client writes is taken for one.
type lifted struct {
	store *spool.Store
	nonce string
	// most bounds what stays.
	most  int64
	rest  []byte
	texts []*spool.Text
	// used are those that a variable was read from.
	used map[int]bool

	inString, escaped, isLong bool
	begin                     int // of the string, in rest
}

func newLifted(store *spool.Store, most int64) *lifted {
	var nonce [16]byte
	rand.Read(nonce[:])
	return &lifted{store: store, nonce: hex.EncodeToString(nonce[:]) + ":", most: most, used: map[int]bool{}}
}

// Write takes the next piece of the body.
func (l *lifted) Write(piece []byte) (n int, err error) {
	for n < len(piece) {
		end := l.plain(piece[n:])
		if l.isLong {
			_, err = l.texts[len(l.texts)-1].Write(piece[n : n+end])
		} else if l.rest = append(l.rest, piece[n:n+end]...); l.inString && len(l.rest)-l.begin > longText {
			err = l.lift()
		}
		if n += end; err != nil {
			return n, err
		}
		if int64(len(l.rest)) > l.most {
			return n, &fault{http.StatusRequestEntityTooLarge, "", fmt.Sprintf("the body has more than %d bytes beside its long texts", l.most)}
		}
		if n < len(piece) { // a quote
			l.inString = !l.inString
			if l.isLong {
				l.isLong = false
				l.rest = append(l.rest, '"')
			} else {
				l.rest = append(l.rest, '"')
				l.begin = len(l.rest)
			}
			n++
		}
	}
	return n, nil
}

// plain is how many bytes there are before a quote that begins or ends a string.
func (l *lifted) plain(piece []byte) int {
	for i, c := range piece {
		switch {
		case l.escaped:
			l.escaped = false
		case c == '\\' && l.inString:
			l.escaped = true
		case c == '"':
			return i
		}
	}
	return len(piece)
}

// lift moves the string that has begun.
func (l *lifted) lift() error {
	text := l.store.Text()
	l.texts = append(l.texts, text)
	l.isLong = true
	_, err := text.Write(l.rest[l.begin:])
	l.rest = append(l.rest[:l.begin], l.nonce...)
	l.rest = strconv.AppendInt(l.rest, int64(len(l.texts)-1), 10)
	return err
}

// close gives up all that was taken out.
func (l *lifted) close() {
	for _, text := range l.texts {
		text.Close()
	}
}

// find is the text that a string stands for, nil when it is the string itself.
func (l *lifted) find(value string) *spool.Text {
	if l == nil {
		return nil
	}
	for i, text := range l.texts {
		if value == l.nonce+strconv.Itoa(i) {
			l.used[i] = true
			return text
		}
	}
	return nil
}

// all holds that each long string was one that may be.
func (l *lifted) all() error {
	if l == nil {
		return nil
	}
	for i, text := range l.texts {
		if !l.used[i] {
			return wrong("", "a text of %d bytes, where none may be of more than %d: only code and inputs are longer", text.Len(), longText)
		}
	}
	return nil
}

// base64Of reads what is beneath the base64 of a string of JSON.
func base64Of(text *spool.Text) io.Reader {
	return base64.NewDecoder(base64.StdEncoding, &unescaped{from: text.Reader(0, text.Len())})
}

// longInputs decodes inputs to a text of their own, judged on the way.
func (l *lifted) longInputs(field string, from *spool.Text, most int64) (*spool.Text, error) {
	inputs := l.store.Text()
	scanner := policy.JSONScanner{Field: "inputs", NonFinite: true} // inputs are Python's JSON, and go on as the bytes that came
	piece := make([]byte, longText)
	decoder := base64Of(from)
	for {
		n, err := decoder.Read(piece)
		took, unfit := scanner.Scan(piece[:n])
		if unfit == nil && len(trimmed(piece[took:n])) > 0 {
			unfit = &policy.FieldError{Field: "inputs", Message: "more than one JSON value"}
		}
		if unfit == nil {
			if _, unfit = inputs.Write(piece[:n]); unfit == nil && inputs.Len() > most {
				unfit = &fault{http.StatusRequestEntityTooLarge, field, fmt.Sprintf("more than %d bytes of inputs", most)}
			}
		}
		switch {
		case unfit != nil:
		case errors.Is(err, io.EOF):
			if unfit = scanner.End(); unfit == nil {
				return inputs, nil
			}
		case err != nil:
			unfit = wrong(field, "not base64: %v", err)
		}
		if unfit != nil {
			inputs.Close()
			var named *policy.FieldError
			if errors.As(unfit, &named) {
				return nil, wrong(named.Field, "%s", named.Message)
			}
			return nil, unfit
		}
	}
}

// longCode decodes code, which is text in memory and so has a bound of its own.
func longCode(field string, from *spool.Text, most int64) (string, error) {
	if from.Len() > most {
		return "", &fault{http.StatusRequestEntityTooLarge, field, fmt.Sprintf("%d bytes of base64, at most %d", from.Len(), most)}
	}
	raw, err := io.ReadAll(base64Of(from))
	if err != nil {
		return "", wrong(field, "not base64: %v", err)
	}
	return string(raw), nil
}

func trimmed(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t' || text[0] == '\n' || text[0] == '\r') {
		text = text[1:]
	}
	return text
}

// unescaped takes the escapes of JSON out of a text that must be ASCII beneath them: what isn't becomes a byte that is none of base64.
type unescaped struct {
	from io.Reader
	// escape is what has come of one.
	escape []byte
	in     []byte
}

const notBase64 = 0xff

func (u *unescaped) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if u.in == nil {
		u.in = make([]byte, 32<<10)
	}
	for {
		got, err := u.from.Read(u.in[:min(len(p), len(u.in))])
		n := 0
		for _, c := range u.in[:got] {
			if len(u.escape) == 0 && c != '\\' {
				p[n] = c
				n++
				continue
			}
			u.escape = append(u.escape, c)
			if r, whole := character(u.escape); whole {
				p[n] = r
				n++
				u.escape = u.escape[:0]
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// character is what an escape means, once it is whole.
func character(escape []byte) (c byte, whole bool) {
	switch {
	case len(escape) == 1:
		return 0, false
	case len(escape) == 2 && escape[1] == 'u':
		return 0, false
	case len(escape) == 2:
		if at := map[byte]byte{'/': '/', 'n': '\n', 'r': '\r'}[escape[1]]; at != 0 {
			return at, true
		}
		return notBase64, true
	case len(escape) < 6:
		return 0, false
	}
	if number, err := strconv.ParseUint(string(escape[2:]), 16, 16); err == nil && number < 0x80 {
		return byte(number), true
	}
	return notBase64, true
}
