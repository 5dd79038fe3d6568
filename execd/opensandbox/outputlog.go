package opensandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

// outputLog is the output of a background command, both streams in one, line by line as lines end: in a file without a name, which nobody else can open and
// which is gone with its last user. Beyond its limit it keeps nothing.
type outputLog struct {
	limit int64

	mu   sync.Mutex // guards what follows
	file *os.File
	size int64
	// begun has the line of each stream that has no end yet: another stream's must not be put into it.
	begun map[string][]byte
	// cut says that there was more than is kept.
	cut bool
}

// newOutputLog makes one in a directory of ours.
func newOutputLog(dir string, limit int64) (*outputLog, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of a command: %w", &os.PathError{Op: "open", Path: dir, Err: err})
	}
	return &outputLog{limit: limit, file: os.NewFile(uintptr(fd), "output"), begun: map[string][]byte{}}, nil
}

// Decision is of the walk's sink.
func (l *outputLog) Decision(policy.Decision) {}

// Output keeps a piece.
func (l *outputLog) Output(name string, chunk []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := append(l.begun[name], chunk...)
	end := bytes.LastIndexByte(begun, '\n') + 1
	if end == 0 && len(begun) > mostBegun {
		end = len(begun)
	}
	l.append(begun[:end])
	l.begun[name] = append([]byte(nil), begun[end:]...)
}

// mostBegun is how much of a line waits for its end.
const mostBegun = 64 << 10

// end keeps the lines that have no end.
func (l *outputLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, second := l.begun["stdout"], l.begun["stderr"]
	if len(first) > 0 && len(second) > 0 {
		first = append(first, '\n')
	}
	l.append(first)
	l.append(second)
	l.begun = map[string][]byte{}
}

// append keeps what is within the limit; mu is held.
func (l *outputLog) append(chunk []byte) {
	if l.file == nil {
		return
	}
	kept := chunk[:min(int64(len(chunk)), l.limit-l.size)]
	l.cut = l.cut || len(kept) < len(chunk)
	n, err := l.file.WriteAt(kept, l.size)
	l.size += int64(n)
	if err != nil { // a full disk: what comes is lost, and that there was more is known
		l.limit, l.cut = l.size, true
	}
}

// from reads what there is from an offset on, at most some of it, and where it ends.
func (l *outputLog) from(offset int64) (data []byte, end int64, err error) {
	const most = 4 << 20
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil, offset, nil
	}
	offset = min(max(offset, 0), l.size)
	data = make([]byte, min(l.size-offset, most))
	n, err := l.file.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], offset + int64(n), err
}

// isCut says that there was more than is kept.
func (l *outputLog) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *outputLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
