package events

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// client speaks to the API server: it makes events and patches their series, and nothing else.
type client struct {
	o    Options
	base string

	// http is for the authority with this digest.
	http      *http.Client
	authority [sha256.Size]byte
}

// object is an Event as the API reads it.
type object struct {
	APIVersion          string         `json:"apiVersion"`
	Kind                string         `json:"kind"`
	Metadata            metadata       `json:"metadata"`
	EventTime           string         `json:"eventTime"`
	ReportingController string         `json:"reportingController"`
	ReportingInstance   string         `json:"reportingInstance"`
	Reason              string         `json:"reason"`
	Action              string         `json:"action"`
	Type                string         `json:"type"`
	Note                string         `json:"note"`
	Regarding           reference      `json:"regarding"`
	Series              *objectsSeries `json:"series,omitempty"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

type objectsSeries struct {
	Count            int    `json:"count"`
	LastObservedTime string `json:"lastObservedTime"`
}

// controller is who we are to those who read events.
const controller = "sandboxd.io/sandboxd"

// microTime is how the API writes a time with parts of a second.
func microTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

// send makes the event of a series, or patches it, and gives its name.
func (c *client) send(ctx context.Context, s *series) (name string, err error) {
	var of *objectsSeries
	if s.count > 1 {
		of = &objectsSeries{s.count, microTime(s.last)}
	}
	if s.name != "" {
		return s.name, c.do(ctx, http.MethodPatch, c.base+"/"+s.name, "application/merge-patch+json", map[string]any{"series": of})
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %d", c.o.Pod, s.key.reason, s.key.action, s.key.rules, s.first.UnixNano()))
	name = c.o.Pod + "." + hex.EncodeToString(sum[:8])
	return name, c.do(ctx, http.MethodPost, c.base, "application/json", object{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: metadata{name, c.o.Namespace}, EventTime: microTime(s.first),
		ReportingController: controller, ReportingInstance: c.o.Pod, Reason: s.key.reason, Action: actionOf(s.key), Type: "Warning", Note: s.note,
		Regarding: reference{"v1", "Pod", c.o.Namespace, c.o.Pod, c.o.PodUID}, Series: of,
	})
}

func actionOf(key seriesKey) string {
	if key.action == "" {
		return "Several"
	}
	return key.action
}

// statusError is an answer that isn't a success.
type statusError struct {
	status int
	after  time.Duration
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.text) }

// gone says that the object isn't there any more: events have an hour's life in the API.
func gone(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == http.StatusNotFound
}

// there says that the object is there already: an answer got lost.
func there(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == http.StatusConflict
}

func retryAfter(err error) time.Duration {
	var e *statusError
	if errors.As(err, &e) {
		return e.after
	}
	return 0
}

func (c *client) do(ctx context.Context, method, address, media string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	token, err := readSmall(filepath.Join(c.o.Credentials, "token"))
	if err != nil {
		return err
	}
	connection, err := c.connection()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", media)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "sandboxd")
	answer, err := connection.Do(request)
	if err != nil {
		return withoutToken(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusCreated {
		return nil // whatever more it says
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = answer.Status
	}
	return errors.Join(&statusError{answer.StatusCode, time.Duration(min(max(seconds, 0), 3600)) * time.Second, clean(said.Message)}, err)
}

// connection is the HTTP client for the authority that is there now: a cluster's can be replaced while we live.
func (c *client) connection() (*http.Client, error) {
	data, err := readSmall(filepath.Join(c.o.Credentials, "ca.crt"))
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	if c.http != nil && c.authority == digest {
		return c.http, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s/ca.crt: no certificate in it", c.o.Credentials)
	}
	c.close()
	c.authority = digest
	c.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxIdleConns: 1,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: c.o.Timeout, MaxResponseHeaderBytes: 64 << 10},
		// A token goes to who was named and nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c.http, nil
}

func (c *client) close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// readSmall reads a file of credentials. What the kubelet projects are links into a directory that it swaps whole.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("%s: empty", path)
	}
	return data, err
}

// withoutToken is an error of net/http as it is: its text has the address, never a header.
func withoutToken(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	return err
}
