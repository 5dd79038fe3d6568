package sandboxd

import (
	"bufio"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// Exec runs a command to its end. The error is an [*ReplyError] when there is a reply, which is then also the first result.
func (c *Client) Exec(ctx context.Context, r ExecRequest) (Reply, error) {
	return c.start(ctx, "/v1/exec", r, r.Rows, nil)
}

// Run runs source code to its end and gives its value back: [Reply.Value]. The error is as in Exec.
func (c *Client) Run(ctx context.Context, r RunRequest) (Reply, error) {
	return c.start(ctx, "/v1/run", r, r.Rows, nil)
}

// StreamExec is Exec whose output is heard as it comes; the reply has none of it then. An error of hear ends the command, and is the error.
func (c *Client) StreamExec(ctx context.Context, r ExecRequest, hear func(Event) error) (Reply, error) {
	return c.start(ctx, "/v1/exec", r, r.Rows, hear)
}

// StreamRun is Run whose output is heard as it comes.
func (c *Client) StreamRun(ctx context.Context, r RunRequest, hear func(Event) error) (Reply, error) {
	return c.start(ctx, "/v1/run", r, r.Rows, hear)
}

// Event is a piece of what happens: first "decision", then any number of "stdout" and "stderr". What comes at the end is in the reply.
type Event struct {
	Event string `json:"event"`
	// Decision is set in "decision".
	Decision *Judgment `json:"decision,omitzero"`
	// Data is set in "stdout" and "stderr" when it is UTF-8, else DataBase64 is: see [Event.Bytes].
	Data       *string `json:"data,omitzero"`
	DataBase64 []byte  `json:"dataBase64,omitempty"`

	// The value and the reply are put together before anybody sees them.
	ReturnValue       jsontext.Value `json:"returnValue,omitzero"`
	ReturnValueHow    string         `json:"returnValueHow,omitempty"`
	ReturnValueReason string         `json:"returnValueReason,omitempty"`
	Reply             *Reply         `json:"reply,omitzero"`
}

// Bytes is a piece of output.
func (e Event) Bytes() []byte { return bytesOf(e.Data, e.DataBase64) }

const ndjson = "application/x-ndjson"

func (c *Client) start(ctx context.Context, path string, body any, rows bool, hear func(Event) error) (Reply, error) {
	ctx, cancel := context.WithCancel(ctx) // closes the connection, by which the daemon ends what runs
	defer cancel()
	query, accept := url.Values{}, "application/json"
	if rows {
		query.Set("rows", "true")
	}
	if hear != nil {
		accept = ndjson
	}
	response, err := c.send(ctx, http.MethodPost, path, query, body, accept)
	if err != nil {
		return Reply{}, err
	}
	defer response.Body.Close()
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == ndjson && hear != nil {
		reply, err := c.events(response.Body, hear)
		if err != nil {
			return Reply{}, err
		}
		return reply, reply.err()
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return Reply{}, c.explain(err)
	}
	// A reply always has an outcome, an error never does, whatever the status is: a denied request has a reply too.
	var reply Reply
	if err := json.Unmarshal(data, &reply, wire); err == nil && reply.Outcome != "" {
		return reply, reply.err()
	}
	if response.StatusCode < http.StatusBadRequest {
		return Reply{}, fmt.Errorf("%s: the daemon's answer isn't a reply", c.where)
	}
	return Reply{}, errorOf(response, data)
}

// events reads a stream to its terminal event. One that ends without it was cut, and no outcome is known.
func (c *Client) events(body io.Reader, hear func(Event) error) (Reply, error) {
	var value Event
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Reply{}, fmt.Errorf("%s: the answer ended before its last event: %w", c.where, err)
		}
		var event Event
		if err := c.decode(line, &event); err != nil {
			return Reply{}, err
		}
		switch event.Event {
		case "result":
			value = event
		case "exit":
			if event.Reply == nil {
				return Reply{}, fmt.Errorf("%s: the last event has no reply", c.where)
			}
			if value.Event != "" {
				event.Reply.ReturnValue, event.Reply.ReturnValueHow, event.Reply.ReturnValueReason = value.ReturnValue, value.ReturnValueHow, value.ReturnValueReason
			}
			return *event.Reply, nil
		default: // also what a later daemon may tell
			if err := hear(event); err != nil {
				return Reply{}, err
			}
		}
	}
}
