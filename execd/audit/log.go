package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Options of a log.
type Options struct {
	// FileBytes is when a new file begins; 0: 64 MiB.
	FileBytes int64
	// Sign has checkpoints made: with Key, or else with one of the directory's own. CheckpointEvery is how long a record may be without one; 0: a minute.
	Sign            bool
	Key             *Key
	CheckpointEvery time.Duration
	// Copy gets every line once the disk has it, in order and once; nil: nobody does. What can't be copied breaks the log as what can't be written: then no
	// record is answered for until [Log.Reopen] has copied what is missing.
	Copy io.Writer
	// Observed hears of each record of [Log.Append] and [Log.Note] that got its place, from who called it; nil: nobody does.
	Observed func(sequence int64, r Record)
	// Now gives the time of a record; nil: time.Now.
	Now func() time.Time

	// open opens a file of the log for appending; nil: the real one. Tests put faults under the log here.
	open func(path string) (file, error)
}

// file is what the writer does with a file.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// ErrBroken says that a write or a sync has failed before: nothing is recorded until [Log.Reopen] succeeds.
var ErrBroken = errors.New("audit: the log is broken")

// ErrStalled says that the disk hasn't answered for some time. It may still: then the log goes on as if nothing had been.
var ErrStalled = errors.New("audit: the disk, or who reads the copy, doesn't answer")

// stalled is how long a disk or a reader may take before we say so.
const stalled = 5 * time.Second

// ErrClosed says that the log was closed.
var ErrClosed = errors.New("audit: the log is closed")

// Log is the open log. Its methods may be called at the same time.
type Log struct {
	dir     string
	options Options
	lock    *os.File
	// unfinished is what Open found: see [Log.Unfinished].
	unfinished []Unfinished
	// key signs, nil where nothing is signed.
	key *Key

	queue chan *request
	ended chan struct{} // closed when the writer is gone

	mu     sync.Mutex // guards what follows; the writer alone writes to position
	closed bool
	broken error
	last   int64
	// anchored is the record of the last checkpoint, 0: none yet.
	anchored   int64
	anchoredAt time.Time
	// busy is since when the writer is at what it was asked; zero: it waits to be asked.
	busy time.Time
}

// request is something that the writer is asked for: a record, or a reopening.
type request struct {
	members []byte
	// durable waits for the sync; else the answer comes after the write.
	durable bool
	reopen  bool
	answer  chan answer // buffered: the writer never waits for who asks
}

type answer struct {
	sequence int64
	err      error
}

// Append adds a record and returns its sequence number once it is on the disk. When ctx ends first the record's fate is unknown, which is an
// error: what depends on the record must not happen.
func (l *Log) Append(ctx context.Context, r Record) (sequence int64, err error) {
	return l.add(ctx, r, true)
}

// Note adds a record and returns once the kernel has it, so that it outlives this process; the sync follows with that of the next record, or soon
// without one. It is for records that nothing waits for, such as an outcome. If the sync fails the log is broken for all that comes later.
func (l *Log) Note(ctx context.Context, r Record) (sequence int64, err error) {
	return l.add(ctx, r, false)
}

func (l *Log) add(ctx context.Context, r Record, durable bool) (int64, error) {
	members, err := encodeRecord(r)
	if err != nil {
		return 0, err
	}
	sequence, err := l.ask(ctx, &request{members: members, durable: durable, answer: make(chan answer, 1)})
	if err == nil && l.options.Observed != nil {
		l.options.Observed(sequence, r)
	}
	return sequence, err
}

// Reopen tries a broken log again: the file is cut back to its last durable record and a record says so. It does nothing to a log that works.
func (l *Log) Reopen(ctx context.Context) error {
	_, err := l.ask(ctx, &request{reopen: true, answer: make(chan answer, 1)})
	return err
}

func (l *Log) ask(ctx context.Context, r *request) (int64, error) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return 0, ErrClosed
	}
	select {
	case l.queue <- r:
	case <-l.ended:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, fmt.Errorf("audit: not recorded: %w", context.Cause(ctx))
	}
	select {
	case a := <-r.answer:
		return a.sequence, a.err
	case <-l.ended:
		// The writer answers all it took before it ends.
		select {
		case a := <-r.answer:
			return a.sequence, a.err
		default:
			return 0, ErrClosed
		}
	case <-ctx.Done():
		return 0, fmt.Errorf("audit: the record's fate is unknown: %w", context.Cause(ctx))
	}
}

// Unfinished are the execs that were released and whose outcome the log doesn't have, as Open found them: their daemon died, and they with it.
func (l *Log) Unfinished() []Unfinished { return l.unfinished }

// Dir is the log's directory.
func (l *Log) Dir() string { return l.dir }

// Err is why the log is broken or stalled, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil && !l.busy.IsZero() && time.Since(l.busy) > stalled {
		return fmt.Errorf("%w for %d s", ErrStalled, int(time.Since(l.busy).Seconds()))
	}
	return l.broken
}

// Last is the sequence number of the last record that the disk has.
func (l *Log) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Anchor is the record of the last signed checkpoint and its time; 0: there is none.
func (l *Log) Anchor() (sequence int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.anchored, l.anchoredAt
}

// PublicKey is what checkpoints are verified by, empty where nothing is signed.
func (l *Log) PublicKey() string {
	if l.key == nil {
		return ""
	}
	return l.key.Public
}

// Close writes what was appended before it and a last checkpoint, and gives the log back for another writer.
func (l *Log) Close() error { return l.CloseWithin(context.Background()) }

// CloseWithin is Close for as long as ctx lasts. After that, whether all is written is unknown, and the lock is kept, since the writer may still
// write.
func (l *Log) CloseWithin(ctx context.Context) error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		select {
		case l.queue <- nil:
		case <-ctx.Done():
			return fmt.Errorf("audit: close: %w: %w", ErrStalled, context.Cause(ctx))
		}
	}
	select {
	case <-l.ended:
	case <-ctx.Done():
		return fmt.Errorf("audit: close: %w: %w", ErrStalled, context.Cause(ctx))
	}
	if !first {
		return nil
	}
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	return errors.Join(broken, l.lock.Close())
}
