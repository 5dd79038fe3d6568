package policy

import (
	"slices"
	"strings"
)

// FileOperation is what is done with a file.
type FileOperation string

// The operations.
const (
	FileRead   FileOperation = "read"
	FileWrite  FileOperation = "write"
	FileStat   FileOperation = "stat"
	FileDelete FileOperation = "delete"
	FileList   FileOperation = "list"
	FileMode   FileOperation = "mode"
	// FileMove gives a file or directory another name; it is for those that follow links.
	FileMove FileOperation = "move"
)

// FileOperations are all of them.
var FileOperations = []FileOperation{FileDelete, FileList, FileMode, FileMove, FileRead, FileStat, FileWrite}

// File is an operation on a file or directory of a sandbox that exists. Content isn't part of it: policy sees how much there may be (limits.fileBytes).
type File struct {
	Operation FileOperation `json:"operation"`
	// Path is in the sandbox; a relative one is in /work.
	Path string `json:"path"`
	// Mode are the permission bits to be given, 0..0777; nil: those that the file has. Only write and mode have it, and mode needs it.
	Mode *int64 `json:"mode,omitzero"`
	// Parents has write make the directories that aren't there.
	Parents bool `json:"parents,omitzero"`
	// Follow has links followed as a command of the sandbox does: the paths are then where it begins to look, and the sandbox alone says where that may end.
	Follow bool `json:"follow,omitzero"`
	// To is where move moves it.
	To string `json:"to,omitzero"`
}

// mostMode are all permission bits. The set-id bits and the sticky bit are for nobody to give.
const mostMode = 0o777

// check says what no File may be, whoever made it. Where a path may lead is for policy to say.
func (f File) check(field string) *FieldError {
	operations := make([]string, len(FileOperations))
	for i, operation := range FileOperations {
		operations[i] = string(operation)
	}
	if fault := checkEnum(member(field, "operation"), string(f.Operation), operations); fault != nil {
		return fault
	}
	if fault := checkPath(member(field, "path"), f.Path); fault != nil {
		return fault
	}
	if fault := f.checkTo(field); fault != nil {
		return fault
	}
	changes := slices.Contains([]FileOperation{FileWrite, FileMode}, f.Operation)
	switch {
	case f.Mode == nil && f.Operation == FileMode && !f.Follow: // there it may be the owner alone
		return faultf(member(field, "mode"), "missing, want the permission bits")
	case f.Mode != nil && !changes:
		return faultf(member(field, "mode"), "only write and mode have it")
	case f.Mode != nil && (*f.Mode < 0 || *f.Mode > mostMode):
		return faultf(member(field, "mode"), "%#o, want permission bits, 0..0777", *f.Mode)
	case f.Parents && f.Operation != FileWrite:
		return faultf(member(field, "parents"), "only write has it")
	}
	return nil
}

func checkPath(field, path string) *FieldError {
	switch {
	case path == "":
		return faultf(field, "empty, want a path in the sandbox")
	case len(path) > longestPath:
		return faultf(field, "%d bytes, at most %d", len(path), longestPath)
	}
	return checkText(field, path)
}

func (f File) checkTo(field string) *FieldError {
	switch {
	case f.Operation != FileMove && f.To != "":
		return faultf(member(field, "to"), "only move has it")
	case f.Operation != FileMove:
		return nil
	case !f.Follow:
		return faultf(member(field, "follow"), "missing: move is for those that follow links")
	}
	return checkPath(member(field, "to"), f.To)
}

// Absolute is the path as it is in the sandbox.
func (f File) Absolute() string {
	if strings.HasPrefix(f.Path, "/") {
		return f.Path
	}
	return workDirectory + "/" + f.Path
}

// workDirectory is where relative paths begin.
const workDirectory = "/work"

// NewFileRequest is an operation that moves at most that many bytes of content. The error is a *FieldError.
func NewFileRequest(sandbox string, f File, bytes int64) (Request, error) {
	request := Request{Action: ActionFile, Sandbox: sandbox, File: f, Limits: Limits{FileBytes: bytes}}
	if err := request.Validate(); err != nil {
		return Request{}, err
	}
	return request, nil
}
