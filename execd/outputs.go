package execd

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// outputsName is where a run leaves what its caller is to have, beneath the directory that it starts in.
const outputsName = "outputs"

// Outputs are the regular files in outputs/ of a run's directory, also in directories there, when it and its tree have ended. In a kept sandbox that is
// also what earlier execs have left. Links, FIFOs and the like aren't told of.
type Outputs struct {
	// Directory is where they are in the sandbox; of a kept one, GET …/files?path=DIRECTORY/PATH has their content.
	Directory string   `json:"directory"`
	Files     []Output `json:"files"`
	// Truncated says that there are more: at most 1,000 files are listed, 16 directories deep.
	Truncated bool `json:"truncated"`
	// Message says why nothing could be listed.
	Message string `json:"message,omitempty"`
}

// Output is one of them.
type Output struct {
	// Path is relative to the directory; PathBase64 stands in its place when it isn't UTF-8.
	Path       string    `json:"path,omitempty"`
	PathBase64 []byte    `json:"pathBase64,omitempty"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"`
	ModifiedAt time.Time `json:"modifiedAt"`
	// ContentBase64 is the content, where it was asked for (outputs.inlineBytes) and there was room for it.
	ContentBase64 []byte `json:"contentBase64,omitzero"`
}

// What looking for outputs may take. The bounds of the list are [file.Gather]'s.
const (
	outputsSeconds   = 10
	outputsListBytes = 1 << 20
)

// withOutputs puts in what a run has left. They are looked for as any file is, by a confined child of ours in the sandbox, decided on, read back and
// recorded; and only where something was written at all, since most runs leave nothing and shouldn't wait for that.
func (w *walk) withOutputs(reply Reply) Reply {
	if !w.options.Outputs || w.request.Action != policy.ActionRun || !w.released || !reply.TreeEmpty || w.ctx.Err() != nil {
		return reply
	}
	switch reply.Outcome {
	case OutcomeMismatch, OutcomeInfra, OutcomeCancelled:
		return reply
	}
	directory := path.Join(directory(w.request.Program.Cwd), outputsName)
	if !w.wroteTo(directory) {
		return reply
	}
	outputs, err := w.gather(directory)
	switch {
	case err != nil:
		reply.Outputs = &Outputs{Directory: directory, Files: []Output{}, Message: sentence(fmt.Errorf("%s can't be listed: %w", directory, err))}
	case len(outputs.Files) > 0 || outputs.Truncated:
		reply.Outputs = &outputs
	}
	return reply
}

// wroteTo says whether there is any file on the file system of the sandbox's own that holds a directory. One without any has nothing but
// its root, whose count the kernel tells (statfs(2)): the root of a mount is no name that a program could have replaced.
func (w *walk) wroteTo(directory string) bool {
	root := w.box.Plan().Root
	base, _, err := filePlace(root, directory)
	if err != nil {
		return false
	}
	i := slices.IndexFunc(root.Mounts, func(m mount.Mount) bool { return m.Target == base })
	if i < 0 || root.Mounts[i].Type != mount.TypeTmpfs {
		return false
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(fmt.Sprintf("/proc/%d/root%s", w.box.PID(), base), &stat); err != nil || stat.Type != unix.TMPFS_MAGIC {
		return true // then whoever looks will see
	}
	return stat.Files-stat.Ffree > 1
}

// gather is the walk of that child.
func (w *walk) gather(directory string) (Outputs, error) {
	asked := policy.File{Operation: policy.FileList, Path: directory}
	if w.options.InlineOutputs > 0 {
		asked.Operation = policy.FileRead
	}
	request, err := policy.NewFileRequest(w.box.id, asked, w.options.InlineOutputs)
	if err != nil {
		return Outputs{}, err
	}
	request.Caller = w.request.Caller
	request.Limits.TimeoutSeconds, request.Limits.OutputBytes = outputsSeconds, outputsListBytes
	var contents []*bytes.Buffer
	t := &transfer{operation: asked.Operation, gather: true, begin: func(file.Header) io.Writer {
		contents = append(contents, bytes.NewBuffer([]byte{})) // of an empty file it is empty, and not missing
		return contents[len(contents)-1]
	}}
	reply := w.service.Exec(w.ctx, request, Options{transfer: t, after: w})
	result, fault := fileResult(reply)
	if fault != nil {
		if fault.Code == "NOT_FOUND" || fault.Code == "NOT_A_DIRECTORY" { // it has made none
			return Outputs{}, nil
		}
		if len(fault.Reasons) > 0 {
			return Outputs{}, fmt.Errorf("%w: %s", fault, fault.Reasons[0].Message)
		}
		return Outputs{}, fault
	}
	return outputsOf(directory, result, contents), nil
}

// outputsOf puts the contents, which came in the order of result.Sent, to their files.
func outputsOf(directory string, result file.Result, contents []*bytes.Buffer) Outputs {
	outputs := Outputs{Directory: directory, Files: make([]Output, len(result.Entries)), Truncated: result.Truncated}
	for i, entry := range result.Entries {
		outputs.Files[i] = Output{Path: entry.Name, PathBase64: entry.NameBase64, Size: entry.Size, Mode: entry.Mode, ModifiedAt: entry.ModifiedAt}
	}
	for n, i := range result.Sent {
		if n < len(contents) && 0 <= i && i < len(outputs.Files) && int64(contents[n].Len()) == outputs.Files[i].Size {
			outputs.Files[i].ContentBase64 = contents[n].Bytes()
		}
	}
	return outputs
}
