package agentsandbox

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// getFile answers with a file's bytes, or with what is in a directory.
func (f *Facade) getFile(x *exchange) error {
	err := f.read(x, x.name)
	if !isCode(err, "NOT_A_FILE") {
		return err
	}
	found, err := f.list(x, x.name)
	if isCode(err, "NOT_A_DIRECTORY") {
		return faultf(http.StatusForbidden, codeForbidden, "%.200q is neither a file nor a directory", x.name)
	}
	if err != nil {
		return err
	}
	type entry struct {
		Name       string `json:"name"`
		Size       int64  `json:"size"`
		Type       string `json:"type"`
		ModifiedAt string `json:"modified_at"`
		Mode       string `json:"mode"`
	}
	entries := []entry{}
	for _, one := range found {
		entries = append(entries, entry{one.Name, one.Size, kinds[one.Kind], one.ModifiedAt.UTC().Format(time.RFC3339), one.Mode})
	}
	x.answer(http.StatusOK, map[string]any{"path": path.Clean("/" + text([]byte(x.name))), "entries": entries})
	return nil
}

// headFile says whether something is there, and how long a file is.
func (f *Facade) headFile(x *exchange) error {
	result, err := f.work(x, x.name, policy.FileStat, execd.FileWork{Order: file.Order{Operation: file.Stat}})
	if err != nil {
		return err
	}
	if len(result.Found) == 1 && result.Found[0].Kind == file.KindFile {
		x.w.Header().Set("Content-Type", "application/octet-stream")
		x.w.Header().Set("Content-Length", strconv.FormatInt(result.Found[0].Size, 10))
	}
	x.empty(http.StatusOK)
	return nil
}

// putFile writes a file whole, or leaves what was there.
func (f *Facade) putFile(x *exchange) error {
	mode := 0o644
	if text := x.r.URL.Query().Get("mode"); x.r.URL.Query().Has("mode") {
		bits, err := strconv.ParseUint(text, 8, 32)
		if err != nil || len(text) != 4 || bits > 0o777 {
			return faultf(http.StatusBadRequest, codeArgument, "mode: %.40q: want four octal digits, such as 0644", text)
		}
		mode = int(bits)
	}
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	x.r.Body = io.NopCloser(patient{x, x.r.Body})
	content := io.Reader(x.r.Body)
	if err == nil && kind == "multipart/form-data" {
		if content, err = x.filePart(); err != nil {
			return err
		}
	}
	if err := f.write(x, x.name, mode, content); err != nil {
		return err
	}
	x.empty(http.StatusNoContent)
	return nil
}

// filePart is the part file of a form.
func (x *exchange) filePart() (io.Reader, error) {
	form, err := x.r.MultipartReader()
	if err == nil {
		part, wrong := form.NextPart()
		if wrong == nil && part.FormName() == "file" {
			return part, nil
		}
		err = wrong
	}
	return nil, faultf(http.StatusBadRequest, codeArgument, "want a form with one part, file: %v", err)
}

// deleteFile takes a file or a directory away; one that isn't empty only with recursive.
func (f *Facade) deleteFile(x *exchange) error {
	recursive := false
	if query := x.r.URL.Query(); query.Has("recursive") {
		var err error
		if recursive, err = strconv.ParseBool(query.Get("recursive")); err != nil {
			return faultf(http.StatusBadRequest, codeArgument, "recursive: %.40q: want true or false", query.Get("recursive"))
		}
	}
	if at, err := f.inside(x.name); err != nil || at == f.config.Base {
		return errors.Join(err, faultf(http.StatusConflict, codeConflict, "%s itself stays; delete what is in it", f.config.Base))
	}
	_, err := f.work(x, x.name, policy.FileDelete, execd.FileWork{Order: file.Order{Operation: file.Delete}})
	if isCode(err, "NOT_A_FILE") {
		err = f.deleteDirectory(x, x.name, recursive)
	}
	if err != nil {
		return err
	}
	x.empty(http.StatusNoContent)
	return nil
}

// deleteDirectory looks into a directory before it is taken away, unless all that is in it may go too. What a program of the sandbox puts there between the
// two goes with it.
func (f *Facade) deleteDirectory(x *exchange, name string, recursive bool) error {
	if !recursive {
		found, err := f.work(x, name, policy.FileList, execd.FileWork{Order: file.Order{Operation: file.Tree, Depth: 1}})
		switch {
		case err != nil:
			return err
		case len(found.Found) > 0:
			return faultf(http.StatusConflict, codeConflict, "%.200q isn't empty; recursive=true removes all that is in it", name)
		}
	}
	_, err := f.work(x, name, policy.FileDelete, execd.FileWork{Order: file.Order{Operation: file.Remove}})
	return err
}

// kinds are those that the protocols have a word for. The others aren't listed.
var kinds = map[string]string{file.KindFile: "file", file.KindDirectory: "directory"}

// list is what is in a directory.
func (f *Facade) list(x *exchange, name string) ([]file.Found, error) {
	result, err := f.work(x, name, policy.FileList, execd.FileWork{Order: file.Order{Operation: file.Tree, Depth: 1}})
	if err != nil {
		return nil, err
	}
	if result.Truncated {
		return nil, faultf(http.StatusInsufficientStorage, codeExhausted, "%.200q: there is more than one answer has room for: %d entries", name, len(result.Found))
	}
	var known []file.Found
	for _, one := range result.Found {
		if kinds[one.Kind] != "" && one.Name != "" {
			known = append(known, one)
		}
	}
	return known, nil
}

// read answers with a file, piece by piece.
func (f *Facade) read(x *exchange, name string) error {
	order := file.Order{Operation: file.Read, Range: file.ParseRange(x.r.Header.Get("Range"))}
	_, err := f.work(x, name, policy.FileRead, execd.FileWork{Order: order, Begin: func(h file.Header) io.Writer {
		header := x.w.Header()
		header.Set("Content-Type", "application/octet-stream")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Accept-Ranges", "bytes")
		header.Set("Content-Length", strconv.FormatInt(h.Length, 10))
		status := http.StatusOK
		if h.Part {
			status = http.StatusPartialContent
			header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", h.Offset, h.Offset+h.Length-1, h.Info.Size))
		}
		x.bounded(func() { x.w.WriteHeader(status) })
		return contentWriter{x}
	}})
	return err
}

// write makes a file of content, and the directories on its way.
func (f *Facade) write(x *exchange, name string, mode int, content io.Reader) error {
	body := patient{x, content}
	_, err := f.work(x, name, policy.FileWrite, execd.FileWork{
		Order: file.Order{Operation: file.Write, Mode: mode, Parents: true}, Body: content, Interrupt: body.interrupt,
	})
	if isCode(err, "NOT_A_FILE") {
		return faultf(http.StatusBadRequest, codeArgument, "%.200q is no file", name)
	}
	return err
}

// listBytes is how much JSON of entries one answer may have.
const listBytes = 16 << 20

// work has an order carried out at a path of the client's, by the walk that every file operation is. operation is what policy is asked about. Links lead
// where they lead a command of the sandbox, which is as confined.
func (f *Facade) work(x *exchange, name string, operation policy.FileOperation, w execd.FileWork) (file.Result, error) {
	at, err := f.inside(name)
	if err != nil {
		return file.Result{}, err
	}
	ctx := x.r.Context()
	box, err := f.where(ctx, x.caller)
	if err != nil {
		return file.Result{}, err
	}
	w.Order.Path, w.Order.Follow = at, true
	asked := policy.File{Operation: operation, Path: at, Parents: w.Order.Parents, Follow: true}
	if mode := int64(w.Order.Mode); operation == policy.FileWrite && mode >= 0 {
		asked.Mode = &mode
	}
	w.Request = policy.Request{
		Action: policy.ActionFile, Caller: x.caller, Sandbox: box, File: asked,
		Limits: policy.Limits{FileBytes: f.config.FileBytes, TimeoutSeconds: f.config.LongestCommand.Seconds()},
	}
	if operation == policy.FileList {
		w.Request.Limits.OutputBytes = listBytes
	}
	if err := w.Request.Validate(); err != nil {
		return file.Result{}, err
	}
	leave, err := f.service.Admit(ctx)
	if err != nil {
		return file.Result{}, faultf(http.StatusServiceUnavailable, codeUnavailable, "the operation got no place: %v", err)
	}
	defer leave()
	return f.service.FileWork(ctx, w)
}

// isCode says of an error that it has that code of the file operations'.
func isCode(err error, code string) bool {
	var e *execd.Error
	return errors.As(err, &e) && e.Code == code
}
