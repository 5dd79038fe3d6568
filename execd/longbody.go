package execd

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// longBody reads the body of a run piece by piece: its inputs are judged as they come, and beyond some length they are in a file and never in memory. Only
// what else the body has counts as the memory of a request.
func (s *Service) longBody(x *exchange) (a asked, err error) {
	c := s.config
	if x.r.ContentLength > c.BodyBytes+c.InputBytes {
		return a, errorOf("TOO_LARGE", fmt.Sprintf("the body has more than %d bytes: %d of inputs and %d beside them; serve --input-bytes and --body-bytes give more",
			c.BodyBytes+c.InputBytes, c.InputBytes, c.BodyBytes))
	}
	err = s.reading(x, func() (err error) {
		connection, left := http.NewResponseController(x.w), paceBytes
		a, err = s.readRun(x.r.Body, func(length int, rest []byte) error {
			if left -= chunkBytes; left < 0 { // each paceBytes has the time that a whole short body has
				left = paceBytes
				if err := connection.SetReadDeadline(time.Now().Add(c.BodyTimeout)); err != nil {
					return err
				}
			}
			if rest != nil {
				return x.expects(rest)
			}
			return x.held.resize(bodyWeight * int64(length))
		})
		x.parsed(a.length())
		return err
	})
	if err != nil {
		a.close()
	}
	return a, err
}

// ReadRun reads the body of POST /v1/run as it comes. inputs are nil, or those that are too long for memory, for [Options.Inputs] and for the caller to close.
func (s *Service) ReadRun(body io.Reader) (r policy.Request, o policy.ExecOptions, inputs *spool.Text, err error) {
	a, err := s.readRun(body, func(int, []byte) error { return nil })
	if err != nil {
		a.close()
		return r, o, nil, err
	}
	return a.request, a.options, a.inputs, nil
}

// readRun reads the body of a run. reserve is asked before more than so many bytes are kept in memory, and once with the rest, before it is parsed. The caller
// closes what it gives, also after an error.
func (s *Service) readRun(from io.Reader, reserve func(length int, rest []byte) error) (a asked, err error) {
	a.inputs = s.spool.Text()
	body := policy.RunBody{Inputs: a.inputs, MostInputs: s.config.InputBytes, MostRest: s.config.BodyBytes}
	piece := make([]byte, chunkBytes)
	for {
		if err := reserve(len(body.Rest())+a.inputs.Memory()+chunkBytes, nil); err != nil {
			return a, err
		}
		n, err := from.Read(piece)
		if _, wrong := body.Write(piece[:n]); wrong != nil {
			return a, wrong
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := reserve(0, body.Rest()); err != nil {
				return a, err
			}
			return a, a.parse(&body)
		case err != nil:
			return a, errors.Join(errIncomplete, err)
		}
	}
}

// parse reads a body that is whole.
func (a *asked) parse(body *policy.RunBody) (err error) {
	short, isShort := a.inputs.Short()
	if isShort {
		a.request, a.options, err = parseRunBody(body, short, nil)
		a.inputs.Close()
		a.inputs = nil
		return err
	}
	bulk := a.inputs.Bulk()
	a.request, a.options, err = parseRunBody(body, nil, &bulk)
	return err
}

func parseRunBody(body *policy.RunBody, inputs jsontext.Value, bulk *policy.Bulk) (policy.Request, policy.ExecOptions, error) {
	request, options, err := body.Parse(inputs, bulk)
	return request, options, orCheck(err, request.Network)
}

// length is what of it is in memory: its texts, of which the code and inputs are the ones that may be long.
func (a asked) length() int {
	return len(a.request.Program.Code) + len(a.request.Program.Inputs) + chunkBytes
}

func (a asked) close() {
	if a.inputs != nil {
		a.inputs.Close()
	}
}
