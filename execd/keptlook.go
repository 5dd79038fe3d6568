package execd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
	"github.com/sandboxd/sandboxd/runner/file"
)

// SandboxUsage is what a sandbox of this caller uses now.
func (s *Service) SandboxUsage(id string, caller policy.Caller) (runner.Usage, error) {
	box, err := s.sandboxes.join(id, caller)
	if err != nil {
		return runner.Usage{}, err
	}
	defer s.sandboxes.putBack(box)
	return box.Usage()
}

// WorkStamp is a text that changes when a file right in a sandbox's work directory does; empty: there is none. Nothing is opened and no link followed: it is
// for who has read the file, to find out whether that would say anything new. The error says that it can't be known.
func (s *Service) WorkStamp(id string, caller policy.Caller, name string) (string, error) {
	if name == "" || strings.Contains(name, "/") || name == ".." {
		return "", fmt.Errorf("%q isn't the name of a file", name)
	}
	box, err := s.sandboxes.join(id, caller)
	if err != nil {
		return "", err
	}
	defer s.sandboxes.putBack(box)
	// The root of a mount: nobody in the sandbox moves it.
	work, err := unix.Open("/proc/"+strconv.Itoa(box.PID())+"/root"+workDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", os.NewSyscallError("open", err)
	}
	defer unix.Close(work)
	if isGone(box) {
		return "", ErrGone // what was opened may be another's
	}
	var stat unix.Stat_t
	err = unix.Fstatat(work, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil:
		return fmt.Sprint(stat.Ino, stat.Size, stat.Mtim, stat.Ctim), nil
	case errors.Is(err, unix.ENOENT):
		return "", nil
	}
	return "", os.NewSyscallError("fstatat", err)
}

// ReadFile reads a small file of a sandbox, by the walk of a file operation. More than most bytes are an error.
func (s *Service) ReadFile(ctx context.Context, id string, caller policy.Caller, path string, most int64) ([]byte, error) {
	request, err := policy.NewFileRequest(id, policy.File{Operation: policy.FileRead, Path: path}, most)
	if err != nil {
		return nil, err
	}
	request.Caller = caller
	var content bytes.Buffer
	t := &transfer{operation: policy.FileRead, begin: func(file.Header) io.Writer { return &content }}
	reply := s.Exec(ctx, request, Options{transfer: t})
	if _, fault := fileResult(reply); fault != nil {
		return nil, fault
	}
	if !t.whole {
		return nil, errorOf("INTERNAL", "the operation gave no content")
	}
	return content.Bytes(), nil
}
