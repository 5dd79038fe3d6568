package sandboxd

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// Client is a daemon's API. It is safe for use by several goroutines, and has no time limit of its own: the daemon bounds every request, and the end
// of a context ends what was started for it.
type Client struct {
	// where is how messages name the daemon.
	where string
	base  string
	token string
	http  *http.Client
}

// New is the client of the daemon that listens on a unix socket. Nothing is connected yet.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{where: socket, base: "http://sandboxd", http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// NewTCP is the client of a daemon that listens on a TCP address (serve --listen), such as "127.0.0.1:7780". The token, the content of its token file, goes
// with every request in clear: use it on the loopback, or behind something that protects it.
func NewTCP(address, token string) *Client {
	return &Client{where: address, base: "http://" + address, token: token, http: &http.Client{
		Transport: &http.Transport{DialContext: new(net.Dialer).DialContext, DisableCompression: true}, // and no proxy
	}}
}

// Close gives idle connections back. What the daemon keeps, such as sandboxes, stays.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// wire is how bodies and answers are read and written: values of programs go through as they are, also where keys repeat or surrogates stand alone.
var wire = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// call is a request whose answer is JSON, which goes to answer; a nil body is none, a nil answer isn't read.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	response, err := c.send(ctx, method, path, query, body, "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return c.explain(err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return errorOf(response, data)
	}
	if answer == nil {
		return nil
	}
	return c.decode(data, answer)
}

func (c *Client) decode(data []byte, answer any) error {
	if err := json.Unmarshal(data, answer, wire); err != nil {
		return fmt.Errorf("%s: the daemon's answer: %w", c.where, err)
	}
	return nil
}

// send marshals the body and sends it. The caller closes the answer's body.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any, accept string) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body, wire)
		if err != nil {
			return nil, fmt.Errorf("the request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	header := http.Header{"Accept": {accept}}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	return c.do(ctx, method, path, query, header, content)
}

// do sends a request as it is.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, header http.Header, content io.Reader) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	request.Header = header
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(err)
	}
	return response, nil
}

// explain says of an error of the connection what a person can do about it. It stays the error that it is.
func (c *Client) explain(err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		hint = "no daemon listens there"
	case errors.Is(err, fs.ErrPermission):
		hint = "it may not be opened by this user; sandboxd serve --allow UID lets one in"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		hint = "the connection was closed: this user may not connect (sandboxd serve --allow UID), or the daemon ended"
	default:
		return fmt.Errorf("%s: %w", c.where, err)
	}
	return fmt.Errorf("%s: %s: %w", c.where, hint, err)
}
