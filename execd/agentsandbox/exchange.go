package agentsandbox

import (
	"encoding/json/v2"
	"errors"
	"io"
	"net/http"
	"time"
)

// bounded writes within the bound.
func (x *exchange) bounded(write func()) {
	connection := http.NewResponseController(x.w)
	_ = connection.SetWriteDeadline(time.Now().Add(x.facade.config.WriteTimeout)) // a recorder in a test has none
	write()
	_ = connection.Flush()
	_ = connection.SetWriteDeadline(time.Time{})
}

// body reads a whole body within its bounds of size and time.
func (x *exchange) body() ([]byte, error) {
	connection := http.NewResponseController(x.w)
	_ = connection.SetReadDeadline(time.Now().Add(x.facade.config.BodyTimeout))
	data, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.facade.config.BodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, faultf(http.StatusRequestEntityTooLarge, codeArgument, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, faultf(http.StatusBadRequest, codeArgument, "the body didn't arrive whole: %v", err)
	}
	_ = connection.SetReadDeadline(time.Time{})
	return data, nil
}

// decode reads a JSON body into a value. A member that isn't known is refused by its name: it may be one that a client counts on.
func (x *exchange) decode(to any) error {
	data, err := x.body()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to, json.RejectUnknownMembers(true)); err != nil {
		return faultf(http.StatusBadRequest, codeArgument, "the body isn't what this call takes: %v", err)
	}
	return nil
}

// patient gives each read of a body a bound of its own, as a client that sends slowly isn't one that has stopped.
type patient struct {
	x *exchange
	io.Reader
}

func (p patient) Read(data []byte) (int, error) {
	connection := http.NewResponseController(p.x.w)
	_ = connection.SetReadDeadline(time.Now().Add(p.x.facade.config.BodyTimeout)) // a recorder in a test has none
	n, err := p.Reader.Read(data)
	if err != nil {
		_ = connection.SetReadDeadline(time.Time{}) // else it would end the request in the middle of the operation
	}
	return n, err
}

// interrupt ends a read that waits for the client: what is still to come isn't wanted.
func (p patient) interrupt() { _ = http.NewResponseController(p.x.w).SetReadDeadline(time.Now()) }

// contentWriter gives each piece of content a bound of its own.
type contentWriter struct{ x *exchange }

func (w contentWriter) Write(data []byte) (int, error) {
	_ = http.NewResponseController(w.x.w).SetWriteDeadline(time.Now().Add(w.x.facade.config.StallTimeout))
	return w.x.w.Write(data)
}
