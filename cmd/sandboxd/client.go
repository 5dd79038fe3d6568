package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// client is a daemon's service, reached over its unix socket.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	// No time-out of our own: the daemon bounds every exec, and an interrupt ends the wait.
	return &client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// Exec asks for a stream of events when there is a sink, else for one answer.
func (c *client) Exec(ctx context.Context, action policy.Action, body requestBody, sink execd.Sink, rows bool) (execd.Reply, error) {
	path := "/v1/" + string(action)
	if rows {
		path += "?rows=true"
	}
	accept := "application/json"
	if sink != nil {
		accept = "application/x-ndjson"
	}
	answer, err := c.send(ctx, http.MethodPost, path, accept, body.reader())
	if err != nil {
		return interrupted(ctx, body.fault(err))
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") == "application/x-ndjson" {
		reply, err := readEvents(answer.Body, sink)
		if err != nil {
			return interrupted(ctx, err)
		}
		return reply, nil
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return interrupted(ctx, err)
	}
	// A reply always has an outcome, an error never does, whatever the status is: a denied request has a reply too.
	var reply execd.Reply
	if err := json.Unmarshal(data, &reply, wire); err == nil && reply.Outcome != "" {
		return reply, nil
	}
	return execd.Reply{}, apiError(answer.Status, data)
}

// interrupted makes the reply that an embedded service gives when the caller went away: the daemon, which kills what runs then, has nobody to
// answer.
func interrupted(ctx context.Context, err error) (execd.Reply, error) {
	if ctx.Err() == nil {
		return execd.Reply{}, err
	}
	return execd.Reply{Outcome: execd.OutcomeCancelled, TreeEmpty: true, Message: "interrupted; the daemon kills what runs"}, nil
}

// readEvents passes a stream on until its terminal event. A stream that ends without one was cut, and no outcome is known.
func readEvents(body io.Reader, sink execd.Sink) (execd.Reply, error) {
	var value *execd.Event
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return execd.Reply{}, fmt.Errorf("the daemon's answer ended before its last event: %w", err)
		}
		var event execd.Event
		if err := json.Unmarshal(line, &event, wire); err != nil {
			return execd.Reply{}, fmt.Errorf("the daemon's answer: %w", err)
		}
		switch event.Event {
		case "stdout", "stderr":
			sink.Output(event.Event, eventBytes(event))
		case "result":
			value = &event
		case "exit":
			if event.Reply == nil {
				return execd.Reply{}, errors.New("the daemon's last event has no reply")
			}
			if value != nil {
				event.Reply.ReturnValue, event.Reply.ReturnValueHow, event.Reply.ReturnValueReason =
					value.ReturnValue, value.ReturnValueHow, value.ReturnValueReason
			}
			return *event.Reply, nil
		}
	}
}

func eventBytes(e execd.Event) []byte {
	if e.Data != nil {
		return []byte(*e.Data)
	}
	return e.DataBase64
}

func (c *client) Decide(ctx context.Context, body []byte) (execd.DecideReply, error) {
	var reply execd.DecideReply
	answer, err := c.do(ctx, http.MethodPost, "/v1/decide", "application/json", body)
	if err != nil {
		return reply, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return reply, err
	}
	if answer.StatusCode != http.StatusOK {
		return reply, apiError(answer.Status, data)
	}
	return reply, json.Unmarshal(data, &reply, wire)
}

func (c *client) Verify(ctx context.Context, body []byte, rows bool) (execd.VerifyReply, error) {
	var reply execd.VerifyReply
	path := "/v1/verify"
	if rows {
		path += "?rows=true"
	}
	answer, err := c.do(ctx, http.MethodPost, path, "application/json", body)
	if err != nil {
		return reply, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return reply, err
	}
	if answer.StatusCode != http.StatusOK {
		return reply, apiError(answer.Status, data)
	}
	return reply, json.Unmarshal(data, &reply, wire)
}

// get asks a path that answers 200 or says why not.
func (c *client) get(ctx context.Context, path string) error {
	answer, err := c.do(ctx, http.MethodGet, path, "application/json", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return apiError(answer.Status, data)
	}
	return nil
}

// Close has nothing to end: what the daemon keeps is the daemon's.
func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func (c *client) do(ctx context.Context, method, path, accept string, body []byte) (*http.Response, error) {
	if body == nil {
		return c.send(ctx, method, path, accept, nil)
	}
	return c.send(ctx, method, path, accept, bytes.NewReader(body))
}

// send is do with a body that needn't be in memory.
func (c *client) send(ctx context.Context, method, path, accept string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://sandboxd"+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no daemon listens on %s; start one with sandboxd serve --socket %s", c.socket, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s may not be opened by this user; sandboxd serve --allow UID lets one in", c.socket)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil, fmt.Errorf("%s closed the connection: this user may not connect (sandboxd serve --allow UID), or the daemon ended", c.socket)
	}
	return nil, fmt.Errorf("%s: %w", c.socket, err)
}

// apiError is the daemon's error in one line.
func apiError(status string, data []byte) error {
	var e execd.Error
	if err := json.Unmarshal(data, &e, wire); err != nil || e.Message == "" {
		return fmt.Errorf("the daemon answered %s", status)
	}
	text := e.Message
	if e.Field != "" && len(text) > 0 && !bytes.HasPrefix([]byte(text), []byte(e.Field)) {
		text = e.Field + ": " + text
	}
	if e.RetryAfterSeconds > 0 {
		text += fmt.Sprintf("; try again in %d s", e.RetryAfterSeconds)
	}
	return errors.New(text)
}
