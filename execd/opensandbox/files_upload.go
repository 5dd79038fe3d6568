package opensandbox

import (
	"bufio"
	"encoding/json/v2"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// mostMetadata bounds the metadata of one file.
const mostMetadata = 64 << 10

// mostDrained is how much of a refused upload is still read, so that the refusal gets through: a connection that is closed under a client that sends may
// take the answer with it.
const mostDrained = 32 << 20

// upload takes files from a form of pairs: metadata, then the file. The content of each goes through to the child as it comes; its place is metadata's alone,
// whatever name the part claims.
func (f *Facade) upload(x *exchange, s site) error {
	medium, parameters, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || medium != "multipart/form-data" || parameters["boundary"] == "" {
		return faultf(http.StatusBadRequest, execdBody, "want a form, multipart/form-data")
	}
	body := &uploadReader{x: x}
	err = f.takeForm(x, s, multipart.NewReader(bufio.NewReaderSize(body, 64<<10), parameters["boundary"]), body.interrupt)
	if err != nil && !body.ended {
		_, _ = io.CopyN(io.Discard, body, mostDrained) // as far as it comes
	}
	if body.broken || err != nil && !body.ended {
		x.w.Header().Set("Connection", "close")
	}
	if err != nil {
		return err
	}
	x.empty()
	return nil
}

func (f *Facade) takeForm(x *exchange, s site, form *multipart.Reader, interrupt func()) error {
	for pairs := 0; ; pairs++ {
		part, err := form.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && pairs > 0:
			return nil
		case errors.Is(err, io.EOF):
			return faultf(http.StatusBadRequest, execdBody, "the form has no file: want pairs of metadata and file")
		case err != nil:
			return badForm(err)
		case part.FormName() != "metadata":
			return faultf(http.StatusBadRequest, execdMetadata, "%.40q: want a part metadata before each file", part.FormName())
		}
		order, err := uploadOrder(s, part)
		if err != nil {
			return err
		}
		part, err = form.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return faultf(http.StatusBadRequest, execdContent, "%.500q: metadata without its file", order.Path)
		case err != nil:
			return badForm(err)
		case part.FormName() != "file":
			return faultf(http.StatusBadRequest, execdContent, "%.40q: want the part file behind its metadata", part.FormName())
		}
		if err := f.takeFile(x, s, order, part, interrupt); err != nil {
			return err
		}
	}
}

func badForm(err error) error {
	return faultf(http.StatusBadRequest, execdBody, "the form didn't arrive whole: %v", err)
}

// uploadOrder reads the metadata of a file.
func uploadOrder(s site, part io.Reader) (file.Order, error) {
	order := file.Order{Operation: file.Write, Parents: true}
	text, err := io.ReadAll(io.LimitReader(part, mostMetadata+1))
	switch {
	case err != nil:
		return order, badForm(err)
	case len(text) > mostMetadata:
		return order, faultf(http.StatusBadRequest, execdMetadata, "metadata: more than %d bytes", mostMetadata)
	}
	var wire struct {
		Path string `json:"path"`
		wireAttributes
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return order, faultf(http.StatusBadRequest, execdMetadata, "metadata: %v", err)
	}
	if wire.Path == "" {
		return order, faultf(http.StatusBadRequest, execdMetadata, "metadata: path: missing")
	}
	if order.Path, err = s.find(wire.Path); err != nil {
		return order, err
	}
	return order, wire.sparing().order("metadata", &order)
}

// takeFile writes one file: the child has it whole, or there is none.
func (f *Facade) takeFile(x *exchange, s site, order file.Order, content io.Reader, interrupt func()) error {
	_, err := f.work(x, s, policy.FileWrite, execd.FileWork{Order: order, Body: filling{content}, Interrupt: interrupt})
	var known *fault
	if errors.As(err, &known) && known.Code == execdRuntime && x.r.Context().Err() != nil { // net/http ends a request whose body can't be read
		return faultf(http.StatusBadRequest, execdContent, "%.500q: the content didn't arrive whole", order.Path)
	}
	return err
}

// filling gives as much as there is room for: the parts of a form come in small pieces, each of which would be a frame of its own.
type filling struct{ io.Reader }

func (r filling) Read(data []byte) (int, error) {
	n, err := io.ReadFull(r.Reader, data)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			return n, nil // the next read says how it ended
		}
	}
	return n, err
}

// uploadReader gives each read of a body a bound of its own, as a client that sends slowly isn't one that has stopped. ended says that all of it was read,
// broken that a read failed, or was made to; both are to be read by who reads the body.
type uploadReader struct {
	x             *exchange
	ended, broken bool

	mu      sync.Mutex // guards what follows
	reading bool
}

func (r *uploadReader) Read(data []byte) (int, error) {
	connection := http.NewResponseController(r.x.w)
	r.mu.Lock()
	r.reading = true
	_ = connection.SetReadDeadline(time.Now().Add(r.x.facade.config.BodyTimeout)) // a recorder in a test has none
	r.mu.Unlock()
	n, err := r.x.r.Body.Read(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = false
	if err != nil {
		// Without this the deadline would end the request's context in the middle of the operation.
		_ = connection.SetReadDeadline(time.Time{})
		r.ended = errors.Is(err, io.EOF)
		r.broken = r.broken || !r.ended
	}
	return n, err
}

// interrupt ends a read that waits for the client: the child has ended, and what is still to come isn't wanted. Where nobody reads, the connection is left
// alone: net/http listens on it for the client's going away, and takes the end of that for it, for this request and all that follow it there.
func (r *uploadReader) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading {
		r.broken = true // it may have been the last
		_ = http.NewResponseController(r.x.w).SetReadDeadline(time.Now())
	}
}
