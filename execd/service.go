package execd

import (
	"context"
	"net"

	"github.com/sandboxd/sandboxd/policy"
)

// Options are what a caller wants besides the request.
type Options struct {
	// ResultMarker takes the value of the last result marker line from stdout.
	ResultMarker bool
	// Rows asks for every row of the verdict.
	Rows bool
	// Sink hears of the decision and of output as it comes; nil: nobody does.
	Sink Sink
}

// Sink hears what happens before the reply. Its methods are called one at a time for each stream and must not block for long: the child's
// output waits meanwhile.
type Sink interface {
	Decision(policy.Decision)
	// Output is a piece of "stdout" or "stderr", never beyond the output limit. The bytes are the sink's to keep.
	Output(stream string, chunk []byte)
}

// Service is one sandboxd: policy, sandboxes, the log, and the two walks.
type Service struct{ config Config }

// New starts a service.
func New(ctx context.Context, c Config) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Service{config: c}, nil
}

// Exec walks one request of action exec or run to its end.
func (s *Service) Exec(ctx context.Context, r policy.Request, o Options) Reply { return Reply{} }

// DecideReply is the answer to a dry run.
type DecideReply struct {
	Decision policy.Decision `json:"decision"`
	// Refused says what this host can't hold of an allowed request.
	Refused       *policy.Reason `json:"refused,omitempty"`
	RequestDigest string         `json:"requestDigest"`
	AuditSequence int64          `json:"auditSequence"`
}

// Decide says what policy and this host would say to a request, and does nothing.
func (s *Service) Decide(ctx context.Context, r policy.Request) (DecideReply, error) {
	return DecideReply{}, nil
}

// Status is the service's own account.
type Status struct {
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
}

// Status says how the service is.
func (s *Service) Status() Status { return Status{} }

// Close kills what runs, closes every sandbox and writes the stop record.
func (s *Service) Close(ctx context.Context) error { return nil }

// Serve answers HTTP on a listener until ctx ends, then stops gracefully.
func (s *Service) Serve(ctx context.Context, l net.Listener) error { return nil }
