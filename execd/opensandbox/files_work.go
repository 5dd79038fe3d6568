package opensandbox

import (
	"context"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// How much JSON of entries one answer may have, and how long an operation may take that moves no content of a client's.
const (
	listBytes   = 16 << 20
	fileTimeout = 5 * time.Minute
)

// find is a path as a command means it. Nothing in it is expanded but a leading ~.
func (s site) find(name string) (string, error) {
	switch {
	case name == "":
		return "", faultf(http.StatusBadRequest, execdQuery, "path: missing")
	case strings.ContainsRune(name, 0):
		return "", faultf(http.StatusBadRequest, execdBody, "path: it has a NUL")
	case name[0] == '/':
		return name, nil
	case name == "~" || strings.HasPrefix(name, "~/"):
		return home + "/" + strings.TrimPrefix(name[1:], "/"), nil
	}
	return s.base + "/" + name, nil
}

// moves says of an order that content of the client's goes with it.
func moves(o file.Order) bool { return o.Operation == file.Read || o.Operation == file.Write }

// work has an order carried out in the sandbox, by the walk that every file operation is. operation is what policy is asked about. The order's path and what
// follows of it are the client's, already found.
func (f *Facade) work(x *exchange, s site, operation policy.FileOperation, w execd.FileWork) (file.Result, error) {
	w.Order.Follow = true
	w.Request = f.fileRequest(s, operation, w.Order)
	if err := w.Request.Validate(); err != nil {
		return file.Result{}, faultf(http.StatusBadRequest, execdBody, "%v", err)
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(s.box.life, cancel)()
	leave, err := f.service.Admit(ctx)
	if err != nil {
		return file.Result{}, notAdmitted(err)
	}
	defer leave()
	started := f.start(ctx)
	defer started()
	w.Accepted = started
	result, err := f.service.FileWork(ctx, w)
	if err != nil {
		return result, x.fileFault(err, w.Order)
	}
	return result, nil
}

// fileRequest is an order in policy's words. The limits are those of a command of the sandbox.
func (f *Facade) fileRequest(s site, operation policy.FileOperation, o file.Order) policy.Request {
	asked := policy.File{Operation: operation, Path: path.Clean(o.Path), Parents: o.Parents, Follow: true}
	if o.To != "" {
		asked.To = path.Clean(o.To)
	}
	if changes := operation == policy.FileWrite || operation == policy.FileMode; changes && o.Mode >= 0 {
		mode := int64(o.Mode)
		asked.Mode = &mode
	}
	limits := s.box.limits
	limits.FileBytes, limits.TimeoutSeconds = f.config.FileBytes, min(fileTimeout, f.config.LongestCommand).Seconds()
	if moves(o) {
		limits.TimeoutSeconds = f.config.LongestCommand.Seconds()
	}
	if operation == policy.FileList {
		limits.OutputBytes = listBytes
	}
	inner := s.box.inner
	if s.inner != "" {
		inner = s.inner
	}
	return policy.Request{
		Action: policy.ActionFile, Caller: s.box.caller, Sandbox: inner, SecurityContext: s.context, Limits: limits, File: asked,
		Command: policy.Command{ReadOnly: s.readOnly},
	}
}

// modeOf reads a mode: octal digits in a decimal number, as 644. -1 is none.
func modeOf(field string, mode *int64) (int, error) {
	if mode == nil {
		return -1, nil
	}
	bits, err := strconv.ParseUint(strconv.FormatInt(*mode, 10), 8, 32)
	switch {
	case err != nil || bits > 0o7777:
		return 0, faultf(http.StatusBadRequest, execdMetadata, "%s: mode: %d: want octal digits, such as 644", field, *mode)
	case bits > 0o777:
		return 0, faultf(http.StatusBadRequest, execdMetadata, "%s: mode: %d: the set-id bits and the sticky bit aren't given", field, *mode)
	}
	return int(bits), nil
}

// wireAttributes are what a file or directory is to have.
type wireAttributes struct {
	Mode  *int64 `json:"mode"`
	Owner string `json:"owner"`
	Group string `json:"group"`
}

// order fills them in.
func (a wireAttributes) order(field string, o *file.Order) (err error) {
	o.Owner, o.Group = a.Owner, a.Group
	o.Mode, err = modeOf(field, a.Mode)
	return err
}

// sparing takes a mode of 0 for none, where a file or directory is made: nobody wants one that can't be opened.
func (a wireAttributes) sparing() wireAttributes {
	if a.Mode != nil && *a.Mode == 0 {
		a.Mode = nil
	}
	return a
}
