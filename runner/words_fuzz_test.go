package runner

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzGate: whatever a child writes on its gate is one message of the one size, or a protocol error.
func FuzzGate(f *testing.F) {
	f.Add(gateBytes(kindReady, 40, 3))
	f.Add(gateBytes(kindStep, 7, -int64(unix.EPERM)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		message, err := parseGate(data)
		switch {
		case err != nil && !errors.Is(err, ErrProtocol):
			t.Fatalf("%v isn't a protocol error", err)
		case err != nil:
			if len(data) == gateSize {
				t.Fatalf("refused a message of the right size: %v", err)
			}
		case !bytes.Equal(gateBytes(message.kind, message.step, message.result), data):
			t.Fatalf("%x was read as %+v", data, message)
		}
	})
}

func gateBytes(kind, step uint32, result int64) []byte {
	b := order.AppendUint32(nil, kind)
	b = order.AppendUint32(b, step)
	return order.AppendUint64(b, uint64(result))
}

// FuzzWorkerWords: whatever comes on a worker's socket either says something of this very exec, or is an error, after which the worker is killed.
func FuzzWorkerWords(f *testing.F) {
	const mine = 8
	target := targetHeader{kind: kindTarget, sequence: mine, target: 9, cwd: 5}
	f.Add(append(bytesOf(&target), "/bin/true/work"...))
	failed := failedHeader{kind: kindFailed, sequence: mine, errno: uint32(unix.ENOENT), step: 4, text: 7}
	f.Add(append(bytesOf(&failed), "openmissing"...))
	f.Add(bytesOf(&exitMessage{kind: kindExit, sequence: mine, flags: exitExecuted | exitEmpty, reaped: 1}))
	f.Add(bytesOf(&emptyMessage{kind: kindEmpty, sequence: mine, reaped: 3}))
	f.Add(bytesOf(&emptyMessage{kind: kindEmpty, sequence: mine + 1}))
	f.Add(bytesOf(&killMessage{kind: kindKill, sequence: mine}))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Child{sequence: mine}
		err := c.hear(data)
		if err != nil {
			if !errors.Is(err, ErrProtocol) && !strings.HasPrefix(err.Error(), "worker: ") {
				t.Fatalf("%v isn't a protocol error", err)
			}
			return
		}
		if len(data) < 16 || order.Uint64(data[8:]) != mine {
			t.Fatalf("%x is taken for a word of exec %d", data, mine)
		}
		if c.heard.target == "" && c.heard.cwd == "" && c.heard.failure == nil && c.heard.exit == nil && !c.heard.empty && order.Uint32(data) != kindTarget {
			t.Fatalf("%x says nothing, and is no error", data)
		}
	})
}

// FuzzControl: descriptors are read out of control data that has no length to be trusted.
func FuzzControl(f *testing.F) {
	f.Add(unix.UnixRights(3, 4, 5))
	f.Add(append(unix.UnixRights(3), unix.UnixRights(4)...))
	f.Add(unix.UnixCredentials(&unix.Ucred{Pid: 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in inbox
		in.descriptors(data)
		if len(in.fds) > len(data)/4 {
			t.Fatalf("%d descriptors in %d bytes", len(in.fds), len(data))
		}
	})
}
