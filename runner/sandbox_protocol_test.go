package runner

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSandboxProtocol: a launcher that says what it can't say is killed, and so is everything in its sandbox; descriptors that nobody asked for
// are closed.
func TestSandboxProtocol(t *testing.T) {
	for _, test := range []struct {
		name string
		say  []byte
		fds  int
		dies bool
	}{
		{"no JSON", []byte("ready"), 0, true},
		{"an unknown word", []byte(`{"readyy":{}}`), 0, true},
		{"nothing", []byte(`{}`), 0, true},
		{"ready twice", []byte(`{"ready":{"hostname":"x"}}`), 0, true},
		{"a member twice", []byte(`{"ended":{"number":1},"ended":{"number":2}}`), 0, true},
		{"too long", bytes.Repeat([]byte(" "), maxPacket+1), 0, true},
		{"too many descriptors", []byte(`{"started":{"number":1,"pid":2}}`), 3, true},
		{"an answer that nobody asked for", []byte(`{"started":{"number":9,"pid":2}}`), 1, false},
		{"the end of an unknown worker", []byte(`{"ended":{"number":9,"status":0}}`), 1, false},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			s, theirs := fakeLauncher(t)
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			fds := make([]int, test.fds)
			for i := range fds {
				fds[i] = int(writer.Fd())
			}
			var rights []byte
			if test.fds > 0 {
				rights = unix.UnixRights(fds...)
			}
			if err := unix.Sendmsg(int(theirs.Fd()), test.say, rights, nil, 0); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			if test.dies {
				select {
				case <-s.gone:
				case <-time.After(10 * time.Second):
					t.Fatal("lives on")
				}
			}
			// The pipe's end comes when the last copy of the other end is closed.
			reader.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := reader.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
				t.Errorf("a descriptor is kept: %d, %v", n, err)
			}
			select {
			case <-s.gone:
				if !test.dies {
					t.Error("killed")
				}
			default:
			}
			closeSandbox(t, s)
		})
	}
}

// fakeLauncher is a sandbox whose launcher is this test, with some other process in its place.
func fakeLauncher(t *testing.T) (*Sandbox, *os.File) {
	t.Helper()
	ours, theirs, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	s := &Sandbox{config: Config{Logger: slog.New(slog.DiscardHandler), MaxWorkers: 1}, slots: make(chan struct{}, 1), all: map[uint64]*worker{},
		asked: map[uint64]chan<- startedWorker{}, gone: make(chan struct{})}
	if s.link, err = newLink(ours); err != nil {
		t.Fatal(err)
	}
	if s.process, err = os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{}); err != nil {
		t.Fatal(err)
	}
	go s.listen()
	return s, theirs
}
