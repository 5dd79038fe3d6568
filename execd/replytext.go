package execd

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strconv"
)

// quoteBytes is how much output is made JSON at a time.
const quoteBytes = 64 << 10

// replyText is the JSON of a reply whose output isn't JSON yet: a mebibyte of it, in which a byte may take six, needn't be in memory twice.
type replyText struct {
	// parts are what is around texts, one more than these.
	parts [][]byte
	texts []string
}

func newReplyText(r Reply) (t replyText, err error) {
	empty := ""
	var names []string
	for _, stream := range []struct {
		name string
		text **string
	}{{`"stdout":"`, &r.Stdout}, {`"stderr":"`, &r.Stderr}} {
		if *stream.text != nil {
			names = append(names, stream.name)
			t.texts = append(t.texts, **stream.text)
			*stream.text = &empty
		}
	}
	rest, err := json.Marshal(r, wire)
	if err != nil {
		return t, err
	}
	for _, name := range names { // no text of a program is before them, where it could look like one
		at := bytes.Index(rest, []byte(name+`"`)) + len(name)
		t.parts = append(t.parts, rest[:at])
		rest = rest[at:]
	}
	t.parts = append(t.parts, append(rest, '\n'))
	return t, nil
}

// pieces gives the JSON piece by piece; each is valid until the next.
func (t replyText) pieces(take func([]byte)) {
	buffer := make([]byte, 0, quoteBytes+quoteBytes/8)
	for i, part := range t.parts {
		take(part)
		if i == len(t.texts) {
			return
		}
		for text := t.texts[i]; text != ""; {
			n := min(len(text), quoteBytes)
			if n < len(text) {
				n -= partialRune([]byte(text[n-4 : n]))
			}
			buffer, _ = jsontext.AppendQuote(buffer[:0], text[:n]) // text is UTF-8, see asText
			take(buffer[1 : len(buffer)-1])
			text = text[n:]
		}
	}
}

// answerReply is answer for what may be long.
func (x *exchange) answerReply(status int, reply Reply) {
	text, err := newReplyText(reply)
	if err != nil {
		panic(err) // answered by the handler's own recovery: every value here has a JSON form
	}
	size := 0
	text.pieces(func(piece []byte) { size += len(piece) })
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(size))
	x.bounded(func() {
		x.w.WriteHeader(status)
		gone := false
		text.pieces(func(piece []byte) {
			if !gone {
				_, err := x.w.Write(piece)
				gone = err != nil // a client that has gone has no use for it
			}
		})
	})
}
