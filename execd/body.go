package execd

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// body reads a JSON body within its bounds of size, time and memory. Memory is reserved before a byte is read, and is the request's until [exchange.parsed]
// gives most of it back, or the exchange ends.
func (s *Service) body(x *exchange) (data []byte, err error) {
	err = s.reading(x, func() (err error) {
		if data, err = x.readBody(s.config.BodyBytes); err == nil {
			err = x.expects(data)
		}
		return err
	})
	return data, err
}

// reading has a JSON body read, in the time that it has.
func (s *Service) reading(x *exchange, read func() error) error {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return badField("Content-Type", fmt.Sprintf("%q: want application/json", x.r.Header.Get("Content-Type")))
	}
	if encoding := x.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return badField("Content-Encoding", fmt.Sprintf("%q: want none", encoding))
	}
	connection := http.NewResponseController(x.w)
	if err := connection.SetReadDeadline(time.Now().Add(s.config.BodyTimeout)); err != nil {
		return err
	}
	x.held.budget = s.bodies
	if err := read(); err != nil {
		x.w.Header().Set("Connection", "close") // what still comes isn't wanted
		return err
	}
	// Without this the deadline would end the request's context in the middle of an exec.
	return connection.SetReadDeadline(time.Time{})
}

// readBody reads at most so many bytes.
func (x *exchange) readBody(most int64) ([]byte, error) {
	tooLarge := errorOf("TOO_LARGE", fmt.Sprintf("the body has more than %d bytes", most))
	if x.r.ContentLength > most {
		return nil, tooLarge
	}
	if x.r.ContentLength >= 0 {
		if err := x.held.resize(bodyWeight * x.r.ContentLength); err != nil {
			return nil, err
		}
		data := make([]byte, x.r.ContentLength)
		if _, err := io.ReadFull(x.r.Body, data); err != nil {
			return nil, errIncomplete
		}
		return data, nil
	}
	var data []byte
	for {
		if err := x.held.resize(bodyWeight * int64(len(data)+chunkBytes)); err != nil {
			return nil, err
		}
		have := len(data)
		data = append(data, make([]byte, chunkBytes)...)
		n, err := io.ReadFull(x.r.Body, data[have:])
		data = data[:have+n]
		switch {
		case int64(len(data)) > most:
			return nil, tooLarge
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return data, x.whole()
		case err != nil:
			return nil, errIncomplete
		}
	}
}

var errIncomplete = errorOf("BAD_REQUEST", "the body didn't arrive whole and in time")

// whole tells the end of a body from a connection that ended in its middle: io.ReadFull has one word for both.
func (x *exchange) whole() error {
	if _, err := x.r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return errIncomplete
	}
	return nil
}

// expects reserves what parsing will take.
func (x *exchange) expects(data []byte) error {
	need := bodyWeight*int64(len(data)) + memberWeight*int64(policy.Members(data))
	if need > x.held.budget.most {
		return errorOf("TOO_LARGE", "the body has more lists and members than this daemon has memory for; serve --request-memory gives it more")
	}
	return x.held.resize(need)
}

// parsed says that of a body of that length only what was parsed is left, which isn't longer.
func (x *exchange) parsed(length int) {
	_ = x.held.resize(min(x.held.bytes, int64(length))) // less is always there
}

// drain reads, for a short while, what a client still sends who has been refused. A connection that is closed with bytes unread is reset, and a client
// who was writing gets EPIPE and may not look for the answer; net/http has the same care, but not for those who said that they will close.
func (x *exchange) drain() {
	if x.broken || x.r.ContentLength == 0 || x.r.Header.Get("Expect") != "" { // who expects 100 hasn't begun to send
		return
	}
	x.held.end()
	if http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(goodbye)) == nil {
		_, _ = io.Copy(io.Discard, x.r.Body) // whatever ends it, it is over
	}
}
