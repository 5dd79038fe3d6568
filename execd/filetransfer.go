package execd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// transfer is the content of a file operation on its way between the client and the child, piece by piece: the memory in use doesn't depend on
// how much it is. It begins with the release and ends by itself when either end does.
type transfer struct {
	operation policy.FileOperation
	// part is what is asked for of a read.
	part file.Range
	// order is what the child is told where a façade has said it.
	order *file.Order
	// body is a write's content, and interrupt ends a read of it that waits for the client.
	body      io.Reader
	interrupt func()
	// begin answers with the header of a read; what it gives takes the content. A gather has many, one file after the other.
	begin  func(file.Header) io.Writer
	gather bool

	// ours is the daemon's end of the pipe, limit the most that goes through it.
	ours  *os.File
	limit int64
	// done is closed when nothing moves any more; nil when nothing has begun. What follows is to be read after that.
	done  chan struct{}
	sum   hash.Hash
	moved int64
	// whole says that all that was to be moved was.
	whole bool
}

// start begins to move. The child is released.
func (t *transfer) start() {
	if t.ours == nil {
		return
	}
	t.done, t.sum = make(chan struct{}), sha256.New()
	go func() {
		defer close(t.done)
		defer t.ours.Close()
		if t.operation == policy.FileWrite {
			t.send()
		} else {
			t.receive()
			for t.gather && t.whole {
				t.receive()
			}
		}
	}()
}

func (t *transfer) send() {
	var err error
	t.moved, err = file.SendFrames(t.ours, io.TeeReader(t.body, t.sum), t.limit)
	t.whole = err == nil
}

func (t *transfer) receive() {
	t.whole = false
	header, err := file.ReadHeader(t.ours)
	if err != nil || t.gather && header.Length > t.limit-t.moved {
		return // the child says why
	}
	out := t.begin(header)
	buffer := make([]byte, 64<<10)
	for left := header.Length; left > 0; {
		n, err := t.ours.Read(buffer[:min(int64(len(buffer)), left)])
		if n > 0 {
			t.sum.Write(buffer[:n])
			if _, err := out.Write(buffer[:n]); err != nil {
				return // the client's; the child gets EPIPE
			}
			t.moved += int64(n)
			left -= int64(n)
		}
		if err != nil {
			return
		}
	}
	t.whole = true
}

// settle waits until nothing moves: the child has ended, so only the client may still keep it waiting, and a client who sends is told that it is
// over. A child that isn't proven to be gone isn't waited for.
func (t *transfer) settle(treeEmpty bool) {
	switch {
	case t == nil:
	case t.done == nil && t.ours != nil:
		t.ours.Close()
	case t.done != nil:
		if !treeEmpty {
			_ = t.ours.SetDeadline(time.Now()) // an error says that it is closed already
		}
		if t.interrupt != nil {
			select {
			case <-t.done:
			default:
				t.interrupt()
			}
		}
		<-t.done
	}
}

// blob is the content for the record; nil when there was none.
func (t *transfer) blob() *audit.Blob {
	if t == nil || t.done == nil {
		return nil
	}
	return &audit.Blob{Bytes: t.moved, Digest: "sha256:" + hex.EncodeToString(t.sum.Sum(nil))}
}

// patientReader gives each read of a body a bound of its own, as a client that sends slowly isn't one that has stopped.
type patientReader struct {
	io.Reader
	deadline func(time.Time) error
	bound    time.Duration
}

func (r *patientReader) Read(data []byte) (int, error) {
	if err := r.deadline(time.Now().Add(r.bound)); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(data)
	if errors.Is(err, io.EOF) {
		// Without this the deadline would end the request's context in the middle of the operation.
		_ = r.deadline(time.Time{})
	}
	return n, err
}
