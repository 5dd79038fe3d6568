package agentsandbox

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// postExecute runs a text of the shell's, whole: its output and how it ended are the answer. The older clients know success alone, so that a time that is
// over is one too; a no of policy is a status of HTTP's, with the reasons.
func (f *Facade) postExecute(x *exchange) error {
	var wire struct {
		Command string   `json:"command"`
		Timeout *float64 `json:"timeout_seconds"`
	}
	if err := x.decode(&wire); err != nil {
		return err
	}
	var timeout time.Duration
	if wire.Timeout != nil {
		if !(*wire.Timeout > 0 && *wire.Timeout <= 86400) {
			return faultf(http.StatusBadRequest, codeArgument, "timeout_seconds: %g: want more than 0, at most 86400", *wire.Timeout)
		}
		timeout = time.Duration(*wire.Timeout * float64(time.Second))
	}
	if strings.TrimSpace(wire.Command) == "" {
		return faultf(http.StatusBadRequest, codeArgument, "command: empty")
	}
	r, err := f.order(x.r.Context(), x.caller, []string{"/bin/sh", "-c", wire.Command}, nil, "", timeout)
	if err != nil {
		return err
	}
	type result struct {
		Stdout   string `json:"stdout"`
		Stderr   string `json:"stderr"`
		ExitCode int    `json:"exit_code"`
		TimedOut bool   `json:"timed_out,omitzero"`
	}
	reply, err := f.walk(x.r.Context(), r, execd.Options{})
	var failed *notStarted
	switch {
	case errors.As(err, &failed):
		x.answer(http.StatusOK, result{Stderr: failed.Message + "\n", ExitCode: failed.status})
		return nil
	case err != nil && !errors.Is(err, errTimedOut):
		return err
	}
	stdout, stderr := reply.Output()
	answer := result{Stdout: text(stdout), Stderr: text(stderr) + notices(reply), ExitCode: exitOf(reply, func(signal int) int { return -signal })}
	if err != nil {
		answer.ExitCode, answer.TimedOut, answer.Stderr = reply.ExitStatus(), true, answer.Stderr+errTimedOut.Message+"\n"
	}
	x.answer(http.StatusOK, answer)
	return nil
}

// text is output as JSON can hold it.
func text(data []byte) string { return strings.ToValidUTF8(string(data), "\uFFFD") }

// postUpload takes the part file of a form, whose filename is where it goes.
func (f *Facade) postUpload(x *exchange) error {
	form, err := x.r.MultipartReader()
	if err != nil {
		return faultf(http.StatusBadRequest, codeArgument, "want a form (multipart/form-data): %v", err)
	}
	x.r.Body = io.NopCloser(patient{x, x.r.Body})
	part, err := form.NextRawPart()
	if err != nil {
		return faultf(http.StatusBadRequest, codeArgument, "the form has no part file: %v", err)
	}
	// Not part.FileName, which leaves directories out.
	_, values, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || values["name"] != "file" || values["filename"] == "" {
		return faultf(http.StatusBadRequest, codeArgument, "want one part whose name is file, with a filename")
	}
	if err := f.write(x, values["filename"], -1, part); err != nil {
		return err
	}
	x.answer(http.StatusOK, map[string]string{"message": "File '" + text([]byte(values["filename"])) + "' uploaded successfully."})
	return nil
}

// getDownload answers with a file.
func (f *Facade) getDownload(x *exchange) error {
	return f.read(x, x.name)
}

// getList lists a directory.
func (f *Facade) getList(x *exchange) error {
	found, err := f.list(x, x.name)
	if isCode(err, "NOT_A_DIRECTORY") {
		return faultf(http.StatusNotFound, codeNotFound, "%.200q isn't a directory", x.name)
	}
	if err != nil {
		return err
	}
	type entry struct {
		Name       string  `json:"name"`
		Size       int64   `json:"size"`
		Type       string  `json:"type"`
		ModifiedAt float64 `json:"mod_time"`
	}
	entries := []entry{}
	for _, one := range found {
		entries = append(entries, entry{one.Name, one.Size, kinds[one.Kind], float64(one.ModifiedAt.UnixNano()) / 1e9})
	}
	x.answer(http.StatusOK, entries)
	return nil
}

// getExists says whether something is there.
func (f *Facade) getExists(x *exchange) error {
	_, err := f.work(x, x.name, policy.FileStat, execd.FileWork{Order: file.Order{Operation: file.Stat}})
	missing := isCode(err, "NOT_FOUND") || isCode(err, "NOT_A_DIRECTORY")
	if err != nil && !missing {
		return err
	}
	x.answer(http.StatusOK, map[string]any{"path": text([]byte(x.name)), "exists": !missing})
	return nil
}
