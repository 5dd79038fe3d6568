package runner

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"syscall"
)

// The messages between daemon and launcher are JSON, one a packet. There are few of them in a sandbox's life.

// launcherOrder is what the daemon says. Exactly one field is set.
type launcherOrder struct {
	// Execute: the descriptor beside it is the daemon's binary, which the launcher becomes. It is the first word to one that the daemon hasn't started.
	Execute bool `json:"execute,omitzero"`
	// Plan: make this sandbox. The plan's JSON is the whole of the descriptor beside it; then come the user namespace that owners of files are mapped by, and the mount
	// that a layer lies on, where it has such.
	Plan bool `json:"plan,omitzero"`
	// Start: start a worker whose socket is the descriptor beside it. It is the worker's number, from 1.
	Start uint64 `json:"start,omitzero"`
	// Signal: send this signal to the process whose pidfd is the descriptor beside it. A daemon of another uid may not.
	Signal int `json:"signal,omitzero"`
}

// launcherReply is what the launcher says. Exactly one field is set.
type launcherReply struct {
	// Fence: the descriptors beside it are the sockets of the sandbox's fence, in the plan's order. It comes before Ready, from a plan that has one.
	Fence bool `json:"fence,omitzero"`
	// Ready: the sandbox is made; this is the name that uname(2) gives.
	Ready *launcherReady `json:"ready,omitempty"`
	// Failed: a step of making it failed; the launcher ends.
	Failed *launcherFailure `json:"failed,omitempty"`
	// Started: the answer to Start. The descriptor beside it is the worker's pidfd.
	Started *workerStarted `json:"started,omitempty"`
	// Ended: a worker has been reaped.
	Ended *workerEnded `json:"ended,omitempty"`
}

type launcherReady struct {
	Hostname string `json:"hostname"`
}

type launcherFailure struct {
	Step    string        `json:"step"`
	Errno   syscall.Errno `json:"errno"`
	Message string        `json:"message"`
}

// workerStarted has the worker's pid in the sandbox, or why there is none.
type workerStarted struct {
	Number  uint64        `json:"number"`
	PID     int           `json:"pid,omitzero"`
	Errno   syscall.Errno `json:"errno,omitzero"`
	Message string        `json:"message,omitzero"`
}

type workerEnded struct {
	Number uint64             `json:"number"`
	Status syscall.WaitStatus `json:"status"`
}

// LauncherError says which step of making a sandbox failed. Nothing of the sandbox is left.
type LauncherError struct {
	Step    string
	Errno   syscall.Errno // 0: not a system call's error
	Message string
}

func (e *LauncherError) Error() string { return "launcher: " + e.Step + ": " + e.Message }

func (e *LauncherError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// strict refuses what the other end, which is of the same version, can't have said.
var strict = json.RejectUnknownMembers(true)

func encode(message any) []byte {
	data, err := json.Marshal(message)
	if err != nil {
		panic(fmt.Sprintf("runner: a message has no JSON form: %v", err))
	}
	return data
}

// errnoOf is the system call's error in a chain of errors, or 0.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}
