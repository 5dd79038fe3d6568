package sandboxd

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// FileInfo is what a file of a sandbox is.
type FileInfo struct {
	// Name is set in lists; NameBase64 in its place when it isn't UTF-8.
	Name       string `json:"name,omitempty"`
	NameBase64 []byte `json:"nameBase64,omitempty"`
	// Kind is "file", "directory", "symbolic link", "FIFO", "socket", "character device", "block device" or "unknown".
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	// Mode are permission bits in octal: "0644".
	Mode       string    `json:"mode"`
	ModifiedAt time.Time `json:"modifiedAt"`
}

// FileReply is the answer to an operation without content.
type FileReply struct {
	ID        string               `json:"id"`
	Operation policy.FileOperation `json:"operation"`
	// Path is absolute.
	Path    string   `json:"path"`
	Info    FileInfo `json:"info"`
	Created bool     `json:"created"`
	// Entries are a directory's; Truncated says that there are more.
	Entries       []FileInfo `json:"entries,omitempty"`
	Truncated     bool       `json:"truncated"`
	Decision      Judgment   `json:"decision"`
	Verdict       Proof      `json:"verdict"`
	AuditSequence int64      `json:"auditSequence"`
}

// File is the content of a file on its way. A read that ends early is io.ErrUnexpectedEOF, so that a part can't be taken for the whole.
type File struct {
	io.ReadCloser
	Info FileInfo
	// AuditSequence is the record of the read.
	AuditSequence int64
}

// WriteOptions of a file; the zero value gives a new file 0644, leaves the mode of one that is there, and makes no directories.
type WriteOptions struct {
	// Mode are permission bits, 0 for none said.
	Mode uint32
	// Parents makes the directories on the way.
	Parents bool
}

// OpenFile reads a regular file of a sandbox from offset on, at most length bytes; 0, 0 is the whole. A relative path begins in /work. Close it.
func (c *Client) OpenFile(ctx context.Context, sandbox, path string, offset, length int64) (*File, error) {
	header := http.Header{}
	switch {
	case offset < 0 || length < 0:
		return nil, &Error{Code: "BAD_REQUEST", Field: "range", Message: fmt.Sprintf("%d, %d: want none that is negative", offset, length)}
	case length > 0:
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := c.do(ctx, http.MethodGet, sandboxPath(sandbox)+"/files", pathQuery(path), header, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, c.explain(err)
		}
		return nil, errorOf(response, data)
	}
	file := &File{ReadCloser: response.Body, Info: describe(response)}
	file.AuditSequence, _ = strconv.ParseInt(response.Header.Get("Sandboxd-Audit-Sequence"), 10, 64)
	return file, nil
}

// ReadFile reads a whole file into memory.
func (c *Client) ReadFile(ctx context.Context, sandbox, path string) ([]byte, error) {
	file, err := c.OpenFile(ctx, sandbox, path, 0, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// StatFile says what a regular file is; anything else is an error that names its kind.
func (c *Client) StatFile(ctx context.Context, sandbox, path string) (FileInfo, error) {
	response, err := c.do(ctx, http.MethodHead, sandboxPath(sandbox)+"/files", pathQuery(path), http.Header{}, nil)
	if err != nil {
		return FileInfo{}, err
	}
	response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest { // HEAD has no body to say why
		e := errorOf(response, nil)
		e.Code = map[int]string{
			http.StatusBadRequest: "BAD_REQUEST", http.StatusUnauthorized: "UNAUTHORIZED", http.StatusForbidden: "DENIED", http.StatusNotFound: "NOT_FOUND",
			http.StatusConflict: "CONFLICT", http.StatusTooManyRequests: "BUSY", http.StatusServiceUnavailable: "NOT_READY",
		}[response.StatusCode]
		return FileInfo{}, e
	}
	return describe(response), nil
}

// WriteFile replaces a file with what content has to its end. Until all of it has come, the file is as it was.
func (c *Client) WriteFile(ctx context.Context, sandbox, path string, content io.Reader, o WriteOptions) (reply FileReply, err error) {
	query := pathQuery(path)
	if o.Mode != 0 {
		query.Set("mode", strconv.FormatUint(uint64(o.Mode), 8))
	}
	if o.Parents {
		query.Set("parents", "true")
	}
	response, err := c.do(ctx, http.MethodPut, sandboxPath(sandbox)+"/files", query, http.Header{"Content-Type": {"application/octet-stream"}}, content)
	if err != nil {
		return reply, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return reply, c.explain(err)
	case response.StatusCode >= http.StatusBadRequest:
		return reply, errorOf(response, data)
	}
	return reply, json.Unmarshal(data, &reply, wire)
}

// ChangeMode changes the permission bits of a file or directory.
func (c *Client) ChangeMode(ctx context.Context, sandbox, path string, mode uint32) (reply FileReply, err error) {
	query := pathQuery(path)
	query.Set("mode", fmt.Sprintf("%04o", mode))
	err = c.call(ctx, http.MethodPatch, sandboxPath(sandbox)+"/files", query, nil, &reply)
	return reply, err
}

// RemoveFile takes the name of anything but a directory away.
func (c *Client) RemoveFile(ctx context.Context, sandbox, path string) (reply FileReply, err error) {
	err = c.call(ctx, http.MethodDelete, sandboxPath(sandbox)+"/files", pathQuery(path), nil, &reply)
	return reply, err
}

// ReadDirectory lists a directory: Entries, in the order of their names.
func (c *Client) ReadDirectory(ctx context.Context, sandbox, path string) (reply FileReply, err error) {
	err = c.call(ctx, http.MethodGet, sandboxPath(sandbox)+"/directories", pathQuery(path), nil, &reply)
	return reply, err
}

func pathQuery(path string) url.Values { return url.Values{"path": {path}} }

// describe reads the headers of a file.
func describe(response *http.Response) FileInfo {
	info := FileInfo{Kind: "file", Mode: response.Header.Get("Sandboxd-File-Mode"), Size: response.ContentLength}
	var first, last, size int64
	if n, _ := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); n == 3 {
		info.Size = size
	}
	info.ModifiedAt, _ = http.ParseTime(response.Header.Get("Last-Modified"))
	return info
}
