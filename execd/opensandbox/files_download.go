package opensandbox

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// download answers with a file, a range of its bytes, or some of its lines. The bytes go from the child's pipe to the client piece by piece.
func (f *Facade) download(x *exchange, s site) error {
	query := x.r.URL.Query()
	at, err := s.find(query.Get("path"))
	if err != nil {
		return err
	}
	order := file.Order{Operation: file.Read, Path: at, Range: file.ParseRange(x.r.Header.Get("Range"))}
	if query.Has("offset") || query.Has("limit") {
		if x.r.Header.Get("Range") != "" {
			return faultf(http.StatusBadRequest, execdBody, "offset and limit are lines, and Range is bytes: want one of them")
		}
		if order.Lines, err = linesOf(query.Get("offset"), query.Get("limit")); err != nil {
			return err
		}
	}
	_, err = f.work(x, s, policy.FileRead, execd.FileWork{Order: order, Begin: x.beginDownload})
	if err == nil {
		x.bounded(func() {}) // what is still in a buffer
	}
	return err
}

// linesOf reads a window of lines.
func linesOf(offset, limit string) (file.Lines, error) {
	lines := file.Lines{Given: true, First: 1, Count: -1}
	for _, number := range []struct {
		name, text string
		to         *int64
	}{{"offset", offset, &lines.First}, {"limit", limit, &lines.Count}} {
		if number.text == "" {
			continue
		}
		value, err := strconv.ParseInt(number.text, 10, 64)
		if err != nil || value < 0 {
			return lines, faultf(http.StatusBadRequest, execdBody, "%s: %.40q: want a number of lines", number.name, number.text)
		}
		*number.to = value
	}
	return lines, nil
}

// beginDownload answers with the header of a read; the content goes to what it gives.
func (x *exchange) beginDownload(h file.Header) io.Writer {
	header := x.w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(h.Length, 10))
	status := http.StatusOK
	if h.Part {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", h.Offset, h.Offset+h.Length-1, h.Info.Size))
	}
	x.bounded(func() { x.w.WriteHeader(status) })
	return (*downloadWriter)(x)
}

// downloadWriter gives each piece of content a bound of its own: a slow client isn't one that has stopped.
type downloadWriter exchange

func (w *downloadWriter) Write(data []byte) (int, error) {
	_ = http.NewResponseController(w.w).SetWriteDeadline(time.Now().Add(w.facade.config.StallTimeout)) // a recorder in a test has none
	return w.w.Write(data)
}
