package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// narrow takes so many bytes and then fails, until it is widened.
type narrow struct {
	mu    sync.Mutex
	bytes bytes.Buffer
	room  int
}

func (n *narrow) Write(data []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.room >= len(data) {
		n.room -= len(data)
		return n.bytes.Write(data)
	}
	took, _ := n.bytes.Write(data[:n.room])
	n.room = 0
	return took, syscall.EPIPE
}

func (n *narrow) widen(room int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.room = room
}

func (n *narrow) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes.String()
}

// TestTheCopyIsTheLog: each line once and in order, whatever the copy's reader and the disk do, and no append is answered for that isn't copied.
func TestTheCopyIsTheLog(t *testing.T) {
	var disk error
	for _, room := range []int{0, 1, 300, 1000, 1 << 20} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			dir := t.TempDir()
			out := &narrow{room: room}
			disk = nil
			l := mustOpen(t, dir, Options{Sign: true, FileBytes: 2000, Copy: out, open: faulty(nil, func(string) error { return disk })})
			for i := range 12 {
				if i == 7 {
					disk = syscall.ENOSPC
				}
				sequence, err := l.Append(t.Context(), Record{Type: TypeRelease, Exec: fmt.Sprint(i)})
				if err == nil {
					if want := fmt.Sprintf(`{"seq":%d,`, sequence); !bytes.Contains([]byte(out.text()), []byte(want)) {
						t.Fatalf("record %d was answered for and isn't copied", sequence)
					}
					continue
				}
				if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				if _, err := l.Append(t.Context(), Record{Type: TypeRelease}); !errors.Is(err, ErrBroken) {
					t.Fatalf("after a copy that failed: %v", err)
				}
				disk = nil
				out.widen(1 << 20)
				if err := l.Reopen(t.Context()); err != nil {
					t.Fatal(err)
				}
				out.widen(room)
			}
			out.widen(1 << 20)
			_ = l.Reopen(t.Context())
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			var log []byte
			files, _ := listFiles(dir)
			for _, file := range files {
				data, err := os.ReadFile(filepath.Join(file.path))
				if err != nil {
					t.Fatal(err)
				}
				log = append(log, data...)
			}
			if got := out.text(); got != string(log) {
				t.Errorf("the copy:\n%s\nthe log:\n%s", got, log)
			}
			if report := mustVerify(t, dir); !report.OK() {
				t.Errorf("%+v", report)
			}
		})
	}
}
