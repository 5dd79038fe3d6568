package runner

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/runner/file"
)

// fileIn runs one file operation in a sandbox, and gives what came over its pipe beside the result.
func fileIn(t *testing.T, s *Sandbox, plan enforcer.Plan, o file.Order, content string) (file.Result, string) {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.Operation == file.Read {
		theirs, ours = ours, theirs
	}
	defer ours.Close()
	inv := enforcer.Invocation{Argv: []string{Name, "file", o.Argument()}, Cwd: "/", Own: true, Extra: 1}
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 20, Extra: []*os.File{theirs}})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	var got []byte
	if o.Operation == file.Read {
		if _, err := file.ReadHeader(ours); err == nil {
			got, _ = io.ReadAll(ours)
		}
	} else {
		_, _ = file.SendFrames(ours, strings.NewReader(content), o.Limit)
	}
	exit := c.Wait(context.Background())
	var result file.Result
	if err := json.Unmarshal(exit.Stdout.Data, &result, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%+v: %s%s: %v", exit.Status, exit.Stdout.Data, exit.Stderr.Data, err)
	}
	if (result.Fault == nil) != (exit.Status.ExitStatus() == 0) || !exit.TreeEmpty {
		t.Errorf("%+v %+v", exit, result)
	}
	return result, string(got)
}

// F17: under the profile of any exec, and where a profile refuses openat2 and its like in either way, results are the same.
func TestFileUnderEveryProfile(t *testing.T) {
	s, host, plan := realSandbox(t, 2)
	sh := run(t, s, testInvocation("mkdir d; echo old > d/f; ln -s /etc l; ln -s d/f n; mkfifo p"), IO{})
	if sh.Status.ExitStatus() != 0 {
		t.Fatalf("%+v", sh)
	}
	profile, err := seccomp.RuntimeDefault(host.Arch, host.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	plans := map[string]enforcer.Plan{"default": plan}
	for _, errno := range []syscall.Errno{syscall.ENOSYS, syscall.EPERM} {
		refusing := profile
		refusing.Rules = append(refusing.Rules[:len(refusing.Rules):len(refusing.Rules)], seccomp.Rule{Calls: []string{"openat2", "fchmodat2", "statx"}, Action: seccomp.Errno(errno)})
		filter, err := seccomp.NewFilter("refusing", refusing, host.Arch)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(filter.Program.Bytes(), plan.Seccomp.Program.Bytes()) {
			t.Fatal("the filter doesn't refuse openat2")
		}
		other := plan
		other.Seccomp = filter
		plans[errno.Error()] = other
	}
	for name, plan := range plans {
		for path, code := range map[string]file.Code{
			"d/f": "", "l/passwd": file.Link, "n": file.Link, "p": file.NotFile, "d": file.NotFile, "d/f/x": file.NotDirectory, "d/none": file.NotFound, "../etc/passwd": file.Outside,
		} {
			order := file.Order{Operation: file.Read, Base: "/work", Path: path, Limit: 1 << 20}
			result, content := fileIn(t, s, plan, order, "")
			if code == "" && (result.Fault != nil || content != "old\n" && content != "new") || code != "" && (result.Fault == nil || result.Fault.Code != code || content != "") {
				t.Errorf("%s: read %s: %+v %q", name, path, result.Fault, content)
			}
		}
		order := file.Order{Operation: file.Write, Base: "/work", Path: "d/f", Mode: 0o604, Limit: 1 << 20}
		if result, _ := fileIn(t, s, plan, order, "new"); result.Fault != nil || result.Info.Mode != "0604" || result.Created {
			t.Errorf("%s: write: %+v", name, result)
		}
		order = file.Order{Operation: file.Mode, Base: "/work", Path: "d/f", Mode: 0o640}
		if result, _ := fileIn(t, s, plan, order, ""); result.Fault != nil || result.Info.Mode != "0640" {
			t.Errorf("%s: mode: %+v", name, result)
		}
		order.Path = "n"
		if result, _ := fileIn(t, s, plan, order, ""); result.Fault == nil || result.Fault.Code != file.Link {
			t.Errorf("%s: mode of a link: %+v", name, result)
		}
		order = file.Order{Operation: file.Write, Base: "/", Path: "etc/passwd", Mode: -1, Limit: 1 << 20}
		if result, _ := fileIn(t, s, plan, order, "new"); result.Fault == nil || result.Fault.Code != file.ReadOnly && result.Fault.Code != file.Forbidden {
			t.Errorf("%s: the root: %+v", name, result.Fault)
		}
		order.Base, order.Path = "/proc", "sys/kernel/hostname"
		if result, _ := fileIn(t, s, plan, order, "new"); result.Fault == nil {
			t.Errorf("%s: /proc/sys took a file", name)
		}
	}
}
