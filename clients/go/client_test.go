package sandboxd_test

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandboxd "github.com/sandboxd/sandboxd/clients/go"
	"github.com/sandboxd/sandboxd/policy"
)

func shell(script string) sandboxd.ExecRequest {
	return sandboxd.ExecRequest{Command: sandboxd.Command{Argv: []string{"sh", "-c", script}}}
}

func TestExec(t *testing.T) {
	client := connect(t)
	r := shell(`printf "$A"; cat; printf '\377' >&2; exit 3`)
	r.Command.Env, r.Command.Stdin, r.Command.Cwd, r.Rows = map[string]string{"A": "b"}, []byte("\x00\xff in"), "/tmp", true
	r.Limits.TimeoutSeconds = 20
	reply, err := client.Exec(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := reply.Output()
	if reply.Outcome != sandboxd.OutcomeError || *reply.ExitCode != 3 || string(stdout) != "b\x00\xff in" || string(stderr) != "\xff" || !reply.Verdict.Held ||
		len(reply.Verdict.Rows) < 20 || reply.AuditSequence == 0 || reply.Bytes.Stdout != 6 {
		t.Errorf("%+v", reply)
	}
}

// TestOutcomes: each end that isn't the program's own is an error of its own, with the reply.
func TestOutcomes(t *testing.T) {
	client := connect(t)
	short, root := shell("echo begun; sleep 60"), shell("true")
	short.Limits.TimeoutSeconds = 0.5
	privileged := true
	root.SecurityContext = &policy.SecurityContext{Privileged: &privileged}
	for name, row := range map[string]struct {
		request sandboxd.ExecRequest
		is      error
	}{
		"timeout":     {short, sandboxd.ErrTimeout},
		"denied":      {root, sandboxd.ErrDenied},
		"not started": {sandboxd.ExecRequest{Command: sandboxd.Command{Argv: []string{"/no/such"}}}, sandboxd.ErrNotStarted},
	} {
		reply, err := client.Exec(t.Context(), row.request)
		var failed *sandboxd.ReplyError
		if !errors.Is(err, row.is) || !errors.As(err, &failed) || failed.Reply.ID != reply.ID || reply.ID == "" || errors.Is(err, sandboxd.ErrBusy) {
			t.Errorf("%s: %v, %+v", name, err, reply)
		}
		for _, other := range []error{sandboxd.ErrTimeout, sandboxd.ErrDenied, sandboxd.ErrNotStarted, sandboxd.ErrInfra, sandboxd.ErrMismatch, sandboxd.ErrOOM} {
			if errors.Is(err, other) != (other == row.is) {
				t.Errorf("%s is %v", name, other)
			}
		}
		switch name {
		case "timeout":
			if stdout, _ := reply.Output(); string(stdout) != "begun\n" || !reply.TimedOut {
				t.Errorf("%q", stdout)
			}
		case "denied":
			if reasons := sandboxd.Reasons(err); len(reasons) == 0 || reasons[0].Rule == "" || !strings.HasPrefix(err.Error(), "denied: ") {
				t.Errorf("%v: %+v", err, reasons)
			}
		}
	}
}

func TestRun(t *testing.T) {
	client := connect(t)
	reply, err := client.Run(t.Context(), sandboxd.RunRequest{
		Code:    "import os\nos.mkdir('outputs')\nopen('outputs/a', 'wb').write(b'\\xff')\n_return = {'sum': sum(inputs['xs']), 'big': 10 ** 20}",
		Inputs:  map[string]any{"xs": []int{1, 2, 3}},
		Outputs: &sandboxd.OutputsRequest{InlineBytes: 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	var value struct {
		Sum int            `json:"sum"`
		Big jsontext.Value `json:"big"`
	}
	if err := reply.Value(&value); err != nil || value.Sum != 6 || string(value.Big) != "100000000000000000000" {
		t.Errorf("%s: %+v %v", reply.ReturnValue, value, err)
	}
	if o := reply.Outputs; o == nil || len(o.Files) != 1 || o.Files[0].Path != "a" || string(o.Files[0].Content) != "\xff" {
		t.Errorf("%+v", o)
	}
	raw, err := client.Run(t.Context(), sandboxd.RunRequest{Code: "_return = inputs", Inputs: jsontext.Value(`{"a": "\ud800", "a": 1.0}`)})
	if err != nil || string(raw.ReturnValue) != `{"a":1.0}` {
		t.Errorf("%s %v", raw.ReturnValue, err)
	}
	failed, err := client.Run(t.Context(), sandboxd.RunRequest{Code: "1/0"})
	if _, stderr := failed.Output(); err != nil || *failed.ExitCode != 1 || !strings.Contains(string(stderr), "ZeroDivisionError") {
		t.Errorf("%v %+v", err, failed)
	}
}

func TestStream(t *testing.T) {
	client := connect(t)
	var heard bytes.Buffer
	first := ""
	reply, err := client.StreamRun(t.Context(), sandboxd.RunRequest{Code: "import sys\nprint('out')\nsys.stderr.write('err')\n_return = 7"}, func(e sandboxd.Event) error {
		if first == "" {
			first = e.Event
		}
		fmt.Fprintf(&heard, "%s", e.Bytes())
		return nil
	})
	if err != nil || first != "decision" || !strings.Contains(heard.String(), "out\n") || !strings.Contains(heard.String(), "err") || string(reply.ReturnValue) != "7" || reply.Stdout != nil {
		t.Errorf("%q %v %+v", heard.String(), err, reply)
	}
	// An error of who hears ends the command.
	enough := errors.New("enough")
	_, err = client.StreamExec(t.Context(), shell("while :; do echo more; sleep 0.01; done"), func(e sandboxd.Event) error {
		if e.Event == "stdout" {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	waitIdle(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = client.StreamExec(ctx, shell("sleep 60"), func(e sandboxd.Event) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waitIdle(t, client)
	if reply, err := client.StreamExec(t.Context(), sandboxd.ExecRequest{Command: sandboxd.Command{Argv: []string{"/no/such"}}}, func(sandboxd.Event) error { return nil }); !errors.Is(err, sandboxd.ErrNotStarted) {
		t.Errorf("%v %+v", err, reply)
	}
}

// waitIdle waits until nothing runs.
func waitIdle(t *testing.T, client *sandboxd.Client) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, err := client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if status.Requests.Running == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatal("what nobody waits for runs on")
		}
	}
}

// TestBusy: one more than may run is turned away, and told when to come again.
func TestBusy(t *testing.T) {
	client := connect(t)
	waitIdle(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	running, ended := make(chan bool, 2), make(chan error, 2)
	for range 2 {
		go func() {
			_, err := client.StreamExec(ctx, shell("sleep 60"), func(sandboxd.Event) error { running <- true; return nil })
			ended <- err
		}()
	}
	<-running
	<-running
	_, err := client.Exec(t.Context(), shell("true"))
	var e *sandboxd.Error
	if !errors.Is(err, sandboxd.ErrBusy) || !errors.As(err, &e) || e.Status != 429 || sandboxd.RetryAfter(err) != time.Second {
		t.Errorf("%v %+v", err, e)
	}
	cancel()
	<-ended
	<-ended
	waitIdle(t, client)
}

func TestBadRequest(t *testing.T) {
	client := connect(t)
	_, err := client.Run(t.Context(), sandboxd.RunRequest{Code: "", Language: "pyton"})
	var e *sandboxd.Error
	if !errors.Is(err, sandboxd.ErrBadRequest) || !errors.As(err, &e) || e.Field != "language" || e.Status != 400 || !strings.Contains(e.Error(), "nearest is python") {
		t.Errorf("%v %+v", err, e)
	}
	if _, err := client.Run(t.Context(), sandboxd.RunRequest{Inputs: func() {}}); err == nil {
		t.Error("a function was sent")
	}
	if _, err := sandboxd.New(filepath.Join(t.TempDir(), "none")).Status(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no daemon listens there") {
		t.Error(err)
	}
}

func TestToken(t *testing.T) {
	client := sandboxd.NewTCP(address, token)
	defer client.Close()
	if reply, err := client.Exec(t.Context(), shell("echo hi")); err != nil || *reply.Stdout != "hi\n" {
		t.Errorf("%v %+v", err, reply)
	}
	wrong := sandboxd.NewTCP(address, token+"x")
	defer wrong.Close()
	if _, err := wrong.Exec(t.Context(), shell("true")); !errors.Is(err, sandboxd.ErrUnauthorized) || strings.Contains(err.Error(), token) {
		t.Error(err)
	}
}

func TestDecide(t *testing.T) {
	client := connect(t)
	yes, err := client.DecideExec(t.Context(), shell("true"))
	if err != nil || !yes.Decision.Allow || yes.Refused != nil || yes.Decision.Effective.Limits.Pids == 0 {
		t.Errorf("%v %+v", err, yes)
	}
	r := sandboxd.RunRequest{Code: "1"}
	escalate := true
	r.SecurityContext = &policy.SecurityContext{AllowPrivilegeEscalation: &escalate}
	no, err := client.DecideRun(t.Context(), r)
	if err != nil || no.Decision.Allow || len(no.Changes) != 1 || no.Changes[0].Field != "securityContext.allowPrivilegeEscalation" {
		t.Errorf("%v %+v", err, no)
	}
	file, err := client.DecideFile(t.Context(), "box", policy.File{Operation: policy.FileRead, Path: "/etc/passwd"})
	if err != nil || file.Decision.Allow {
		t.Errorf("%v %+v", err, file)
	}
}

func TestSandboxesAndFiles(t *testing.T) {
	client := connect(t)
	box, err := client.CreateSandbox(t.Context(), sandboxd.SandboxRequest{})
	if err != nil || !box.Verdict.Held {
		t.Fatalf("%v %+v", err, box)
	}
	defer func() {
		if err := client.DeleteSandbox(context.Background(), box.ID); err != nil {
			t.Error(err)
		}
		if _, err := client.Sandbox(context.Background(), box.ID); !errors.Is(err, sandboxd.ErrNotFound) {
			t.Error(err)
		}
	}()
	if list, err := client.Sandboxes(t.Context()); err != nil || len(list) != 1 || list[0].ID != box.ID {
		t.Errorf("%v %+v", err, list)
	}
	if found, err := client.Sandbox(t.Context(), box.ID); err != nil || found.ID != box.ID {
		t.Errorf("%v %+v", err, found)
	}
	wrote, err := client.WriteFile(t.Context(), box.ID, "in/a b", io.LimitReader(strings.NewReader("0123456789"), 10), sandboxd.WriteOptions{Mode: 0o600, Parents: true})
	if err != nil || !wrote.Created || wrote.Path != "/work/in/a b" || wrote.Info.Mode != "0600" || !wrote.Verdict.Held {
		t.Fatalf("%v %+v", err, wrote)
	}
	if data, err := client.ReadFile(t.Context(), box.ID, "/work/in/a b"); err != nil || string(data) != "0123456789" {
		t.Errorf("%q %v", data, err)
	}
	for _, row := range []struct {
		offset, length int64
		want           string
	}{{3, 2, "34"}, {8, 0, "89"}, {0, 1, "0"}, {9, 100, "9"}} {
		part, err := client.OpenFile(t.Context(), box.ID, "in/a b", row.offset, row.length)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil || string(data) != row.want || part.Info.Size != 10 || part.Info.Mode != "0600" || part.Info.ModifiedAt.IsZero() || part.AuditSequence == 0 {
			t.Errorf("%q %v %+v", data, err, part.Info)
		}
		part.Close()
	}
	if info, err := client.StatFile(t.Context(), box.ID, "in/a b"); err != nil || info.Size != 10 || info.Mode != "0600" {
		t.Errorf("%v %+v", err, info)
	}
	if reply, err := client.ChangeMode(t.Context(), box.ID, "in/a b", 0o644); err != nil || reply.Info.Mode != "0644" {
		t.Errorf("%v %+v", err, reply)
	}
	if list, err := client.ReadDirectory(t.Context(), box.ID, "in"); err != nil || len(list.Entries) != 1 || list.Entries[0].Name != "a b" {
		t.Errorf("%v %+v", err, list)
	}
	r := shell("cat 'in/a b'; mkdir outputs; cp 'in/a b' outputs/c")
	r.Sandbox = box.ID
	if reply, err := client.Exec(t.Context(), r); err != nil || *reply.Stdout != "0123456789" {
		t.Errorf("%v %+v", err, reply)
	}
	run := sandboxd.RunRequest{Code: "_return = 1"}
	run.Sandbox = box.ID
	if reply, err := client.Run(t.Context(), run); err != nil || reply.Outputs == nil || reply.Outputs.Files[0].Path != "c" || reply.Outputs.Files[0].Content != nil {
		t.Errorf("%v %+v", err, reply.Outputs)
	}
	if _, err := client.RemoveFile(t.Context(), box.ID, "in/a b"); err != nil {
		t.Error(err)
	}
	if _, err := client.ReadFile(t.Context(), box.ID, "in/a b"); !errors.Is(err, sandboxd.ErrNotFound) {
		t.Error(err)
	}
	if _, err := client.StatFile(t.Context(), box.ID, "in/a b"); !errors.Is(err, sandboxd.ErrNotFound) {
		t.Error(err)
	}
	var e *sandboxd.Error
	if _, err := client.ReadFile(t.Context(), box.ID, "in"); !errors.As(err, &e) || e.Code != "NOT_A_FILE" || e.Kind != "directory" {
		t.Error(err)
	}
	if _, err := client.OpenFile(t.Context(), box.ID, "in", -1, 0); !errors.Is(err, sandboxd.ErrBadRequest) {
		t.Error(err)
	}
	if _, err := client.ReadFile(t.Context(), box.ID, "/etc/passwd"); !errors.Is(err, sandboxd.ErrDenied) || len(sandboxd.Reasons(err)) == 0 {
		t.Error(err)
	}
	// Content that breaks off leaves no file.
	broken := io.MultiReader(strings.NewReader("half"), iotestErr{})
	if _, err := client.WriteFile(t.Context(), box.ID, "broken", broken, sandboxd.WriteOptions{}); err == nil {
		t.Error("half a file was taken")
	}
	if _, err := client.StatFile(t.Context(), box.ID, "broken"); !errors.Is(err, sandboxd.ErrNotFound) {
		t.Error(err)
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errors.New("broken off") }

func TestNetwork(t *testing.T) {
	need(t, "network.fence")
	client := connect(t)
	box, err := client.CreateSandbox(t.Context(), sandboxd.SandboxRequest{Network: &policy.NetworkSpec{DefaultAction: policy.NetworkDeny}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.DeleteSandbox(context.Background(), box.ID) }()
	if reply, err := client.Network(t.Context(), box.ID); err != nil || reply.Sandbox != box.ID || !reply.Verdict.Held {
		t.Errorf("%v %+v", err, reply)
	}
	if reply, err := client.SetNetwork(t.Context(), box.ID, policy.NetworkSpec{DefaultAction: policy.NetworkDeny}); err != nil || reply.Decision == nil || reply.Wanted != reply.Proven {
		t.Errorf("%v %+v", err, reply)
	}
	out := policy.NetworkSpec{Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: "example.com"}}}
	if _, err := client.SetNetwork(t.Context(), box.ID, out); !errors.Is(err, sandboxd.ErrDenied) || len(sandboxd.Reasons(err)) == 0 {
		t.Error(err)
	}
}

func TestVerifyAndStatus(t *testing.T) {
	client := connect(t)
	reply, err := client.Verify(t.Context(), "", true)
	if err != nil || !reply.Held || len(reply.Probes) == 0 || len(reply.Daemon.Rows) == 0 {
		t.Errorf("%v %+v", err, reply)
	}
	if _, err := client.Verify(t.Context(), "00112233445566778899aabbccddeeff", false); !errors.Is(err, sandboxd.ErrNotFound) {
		t.Error(err)
	}
	status, err := client.Status(t.Context())
	if err != nil || !status.Ready || status.Policy.Revision == "" || len(status.Host.Mechanisms) == 0 || status.Audit.Sequence == 0 {
		t.Errorf("%v %+v", err, status)
	}
}
