package execd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// FileReply is the answer to a file operation that has no content to answer with.
type FileReply struct {
	// ID is the operation's own, as an exec's.
	ID        string               `json:"id"`
	Operation policy.FileOperation `json:"operation"`
	Path      string               `json:"path"`
	Info      file.Info            `json:"info"`
	// Created says that there was no file of that name before.
	Created bool `json:"created"`
	// Entries are a directory's; Truncated says that there are more.
	Entries   []file.Info `json:"entries,omitempty"`
	Truncated bool        `json:"truncated"`
	Decision  Judgment    `json:"decision"`
	Verdict   Proof       `json:"verdict"`
	// AuditSequence is the record that holds decision and proof.
	AuditSequence int64 `json:"auditSequence"`
}

// The headers that every answer to a file operation has, once it has got so far.
const (
	headerExec     = "Sandboxd-Exec"
	headerSequence = "Sandboxd-Audit-Sequence"
	headerMode     = "Sandboxd-File-Mode"
)

// listBytes is how much JSON a list may take.
const listBytes = 4 << 20

func (s *Service) getFile(x *exchange) error {
	t := &transfer{operation: policy.FileRead}
	if x.r.Header.Get("If-Range") == "" { // what it would be compared with isn't kept: the whole is always right
		t.part = file.ParseRange(x.r.Header.Get("Range"))
	}
	return s.file(x, t)
}

func (s *Service) headFile(x *exchange) error {
	return s.file(x, &transfer{operation: policy.FileStat})
}

func (s *Service) putFile(x *exchange) error {
	if encoding := x.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return badField("Content-Encoding", fmt.Sprintf("%q: want none", encoding))
	}
	if x.r.ContentLength > s.config.FileBytes {
		x.w.Header().Set("Connection", "close") // what comes isn't wanted
		return errorOf("TOO_LARGE", fmt.Sprintf("the body has %d bytes; a file may have %d", x.r.ContentLength, s.config.FileBytes))
	}
	connection := http.NewResponseController(x.w)
	return s.file(x, &transfer{
		operation: policy.FileWrite,
		body:      &patientReader{Reader: x.r.Body, deadline: connection.SetReadDeadline, bound: s.config.BodyTimeout},
		interrupt: func() {
			x.w.Header().Set("Connection", "close")
			_ = connection.SetReadDeadline(time.Now())
		},
	})
}

func (s *Service) patchFile(x *exchange) error {
	return s.file(x, &transfer{operation: policy.FileMode})
}

func (s *Service) deleteFile(x *exchange) error {
	return s.file(x, &transfer{operation: policy.FileDelete})
}

func (s *Service) listDirectory(x *exchange) error {
	return s.file(x, &transfer{operation: policy.FileList})
}

// file is every operation: the walk of an exec, whose program is ours.
func (s *Service) file(x *exchange, t *transfer) error {
	if err := s.open(); err != nil {
		return err
	}
	ticket, err := s.queue.enter()
	if err != nil {
		return err
	}
	defer ticket.leave()
	request, err := s.fileRequest(x, t.operation)
	if err != nil {
		return err
	}
	if _, err := s.sandboxes.find(request.Sandbox, x.caller); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	if err := ticket.run(ctx, request.Limits, 0); err != nil {
		return err
	}
	t.begin = func(h file.Header) io.Writer { return x.beginFile(h) }
	if t.body != nil {
		defer func() { // what is left of a body that wasn't read isn't another request
			if !t.whole {
				x.w.Header().Set("Connection", "close")
			}
		}()
	}
	reply := s.Exec(ctx, request, Options{transfer: t, Accepted: func(id string, sequence int64) {
		x.w.Header().Set(headerExec, id)
		x.w.Header().Set(headerSequence, strconv.FormatInt(sequence, 10))
	}})
	return s.answerFile(x, t, request, reply)
}

// fileRequest reads the parameters.
func (s *Service) fileRequest(x *exchange, operation policy.FileOperation) (policy.Request, error) {
	query := x.r.URL.Query()
	asked := policy.File{Operation: operation, Path: query.Get("path")}
	if text := query.Get("mode"); text != "" {
		mode, err := strconv.ParseInt(text, 8, 32)
		if err != nil {
			return policy.Request{}, badField("query.mode", fmt.Sprintf("%.20q: want octal digits, such as 0644", text))
		}
		asked.Mode = &mode
	}
	var err error
	if asked.Parents, err = x.flag("parents"); err != nil {
		return policy.Request{}, err
	}
	request, err := policy.NewFileRequest(x.r.PathValue("id"), asked, s.config.FileBytes)
	var fault *policy.FieldError
	if errors.As(err, &fault) { // as the caller wrote it
		fault.Field = strings.Replace(fault.Field, "file.", "query.", 1)
	}
	if err != nil {
		return request, err
	}
	request.Caller = x.caller
	if operation == policy.FileList {
		request.Limits.OutputBytes = listBytes
	}
	return request, nil
}

// beginFile answers a read with its header; the content goes to what it gives.
func (x *exchange) beginFile(h file.Header) io.Writer {
	x.describe(h.Info)
	x.w.Header().Set("Content-Length", strconv.FormatInt(h.Length, 10))
	status := http.StatusOK
	if h.Part {
		status = http.StatusPartialContent
		x.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", h.Offset, h.Offset+h.Length-1, h.Info.Size))
	}
	x.bounded(func() { x.w.WriteHeader(status) })
	return (*patientWriter)(x)
}

// describe sets the headers of a file.
func (x *exchange) describe(info file.Info) {
	header := x.w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(info.Size, 10))
	header.Set("Last-Modified", info.ModifiedAt.UTC().Format(http.TimeFormat))
	header.Set(headerMode, info.Mode)
}

// patientWriter gives each piece of content a bound of its own.
type patientWriter exchange

func (w *patientWriter) Write(data []byte) (n int, err error) {
	(*exchange)(w).bounded(func() { n, err = w.w.Write(data) })
	return n, err
}

// answerFile answers what hasn't been answered by content. A read that ended in its middle is cut, so that it can't be taken for the whole.
func (s *Service) answerFile(x *exchange, t *transfer, request policy.Request, reply Reply) error {
	result, fault := fileResult(reply)
	if reply.Outcome == OutcomeCancelled && t.body != nil && x.r.Context().Err() != nil { // net/http ends a request whose body can't be read
		fault = errorOf("INCOMPLETE", "the body didn't arrive whole and in time")
	}
	s.metrics.file(request.File.Operation, fault, t.moved)
	if fault != nil {
		if fault.Code == "RANGE" {
			x.w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", fault.Size))
		}
		return fault
	}
	switch t.operation {
	case policy.FileRead:
		if x.broken = !t.whole; x.broken && x.w.status == 0 {
			x.broken = false
			return errorOf("INTERNAL", "the operation gave no content")
		}
		return nil
	case policy.FileStat:
		x.describe(*result.Info)
		x.bounded(func() { x.w.WriteHeader(http.StatusOK) })
		return nil
	}
	status := http.StatusOK
	if result.Created {
		status = http.StatusCreated
	}
	if result.Info == nil {
		return errorOf("INTERNAL", "the operation doesn't say what it found")
	}
	x.answer(status, FileReply{
		ID: reply.ID, Operation: t.operation, Path: request.File.Absolute(), Info: *result.Info, Created: result.Created,
		Entries: result.Entries, Truncated: result.Truncated, Decision: reply.Decision, Verdict: reply.Verdict, AuditSequence: reply.AuditSequence,
	})
	return nil
}
