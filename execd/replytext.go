package execd

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"
	"net/http"
	"strconv"
	"time"
)

// quoteBytes is how much output is made JSON at a time.
const quoteBytes = 64 << 10

// replyText is the JSON of a reply whose output isn't JSON yet: a mebibyte of it, in which a byte may take six, needn't be in memory twice. Nor need a long
// value be there once.
type replyText struct {
	// parts are what is around inserts, one more than these.
	parts   [][]byte
	inserts []insert
}

// insert is a text that becomes the inside of a string, or a long value.
type insert struct {
	text  string
	value *Value
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
			t.inserts = append(t.inserts, insert{text: **stream.text})
			*stream.text = &empty
		}
	}
	if r.value != nil {
		names = append(names, `"returnValue":`)
		t.inserts = append(t.inserts, insert{value: r.value})
		r.ReturnValue = standIn
	}
	rest, err := json.Marshal(r, wire)
	if err != nil {
		return t, err
	}
	t.cut(rest, names)
	return t, nil
}

// standIn is where a long value goes.
var standIn = jsontext.Value(`""`)

// cut finds the places by the names before them. In a string of JSON, where a text of a program might look like one, their quotes would be escaped.
func (t *replyText) cut(rest []byte, names []string) {
	for i, name := range names {
		at := bytes.Index(rest, []byte(name+`"`)) + len(name)
		t.parts = append(t.parts, rest[:at])
		if rest = rest[at:]; t.inserts[i].value != nil {
			rest = rest[len(standIn):]
		}
	}
	t.parts = append(t.parts, append(rest, '\n'))
}

// size is how many bytes pieces gives.
func (t replyText) size() (size int64) {
	for i := range t.parts {
		size += int64(len(t.parts[i]))
		switch {
		case i == len(t.inserts):
		case t.inserts[i].value != nil:
			size += t.inserts[i].value.Len()
		default:
			_ = quotedPieces(t.inserts[i].text, func(piece []byte) error { size += int64(len(piece)); return nil })
		}
	}
	return size
}

// pieces gives the JSON piece by piece; each is valid until take returns. The error is take's, or the disk's.
func (t replyText) pieces(take func([]byte) error) error {
	for i, part := range t.parts {
		err := take(part)
		switch {
		case err != nil || i == len(t.inserts):
		case t.inserts[i].value != nil:
			err = t.inserts[i].value.Pieces(take)
		default:
			err = quotedPieces(t.inserts[i].text, take)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// quotedPieces gives the inside of the string of JSON that a text makes.
func quotedPieces(text string, take func([]byte) error) error {
	buffer := make([]byte, 0, quoteBytes+quoteBytes/8)
	for text != "" {
		n := min(len(text), quoteBytes)
		if n < len(text) {
			n -= partialRune([]byte(text[n-4 : n]))
		}
		buffer, _ = jsontext.AppendQuote(buffer[:0], text[:n]) // text is UTF-8, see asText
		if err := take(buffer[1 : len(buffer)-1]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// answerReply is answer for what may be long.
func (x *exchange) answerReply(status int, reply Reply) {
	text, err := newReplyText(reply)
	if err != nil {
		panic(err) // answered by the handler's own recovery: every value here has a JSON form
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.FormatInt(text.size(), 10))
	x.bounded(func() {
		x.w.WriteHeader(status)
		// A client that has gone has no use for the rest. One whose value can't be read from the disk finds less than the length that was said.
		err := text.pieces(x.paced())
		x.broken = err != nil
	})
}

// paceBytes is how much of a long answer has the time that a short one has as a whole; so too of a long body.
const paceBytes = 1 << 20

// paced writes a long answer: each paceBytes of it have the bound of a write.
func (x *exchange) paced() func([]byte) error {
	return paced(x.w, x.bound)
}

func paced(w http.ResponseWriter, bound time.Duration) func([]byte) error {
	connection, left := http.NewResponseController(w), paceBytes
	return func(piece []byte) error {
		if left -= len(piece); left < 0 {
			left = paceBytes
			_ = connection.SetWriteDeadline(time.Now().Add(bound)) // a recorder in a test has none
		}
		_, err := w.Write(piece)
		return err
	}
}

// WriteJSON writes the reply as the API has it, a long value too, and ends the line.
func (r Reply) WriteJSON(to io.Writer) error {
	text, err := newReplyText(r)
	if err != nil {
		return err
	}
	return text.pieces(func(piece []byte) error {
		_, err := to.Write(piece)
		return err
	})
}
