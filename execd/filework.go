package execd

import (
	"context"
	"io"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// FileWork is an operation on a file of a kept sandbox, as a façade wants it done: policy decides on the request, and the order is what the child does.
type FileWork struct {
	// Request is of action file, with who asks, which sandbox, as whom, and the limits.
	Request policy.Request
	// Order says it in detail. Its limit is the request's: fileBytes, or outputBytes of what lists.
	Order file.Order
	// Body is the content of a write or a replace, and Interrupt ends a read of it that waits for the client.
	Body      io.Reader
	Interrupt func()
	// Begin answers with the header of a read; what it gives takes the content.
	Begin func(file.Header) io.Writer
	// Accepted hears that it is about to be released; nil: nobody does.
	Accepted func()
}

// FileWork walks it as any file operation is: confined, read back and recorded. The error is an *Error; with some of them there is a result too. It takes
// no place of its own ([Service.Admit]).
func (s *Service) FileWork(ctx context.Context, w FileWork) (file.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &transfer{operation: w.Request.File.Operation, order: &w.Order, body: w.Body, interrupt: w.Interrupt, begin: w.Begin}
	options := Options{transfer: t}
	if w.Accepted != nil {
		options.Accepted = func(string, int64) { w.Accepted() }
	}
	reply := s.Exec(ctx, w.Request, options)
	result, fault := fileResult(reply)
	if reply.Outcome == OutcomeOOM {
		fault = errorOf("NO_SPACE", "the sandbox's memory is used up, which its files in /tmp and /work are part of")
	}
	if fault == nil && w.Order.Operation == file.Read && !t.whole {
		fault = errorOf("INTERNAL", "the content didn't get through whole")
	}
	s.metrics.file(w.Request.File.Operation, fault, t.moved)
	if fault != nil {
		return result, fault
	}
	return result, nil
}
