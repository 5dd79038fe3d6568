package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// maxBatch bounds the records that share one write and one sync.
const maxBatch = 256

// noteBound is how long a note may wait for the sync of a durable record. A note between two execs shares that of the second one's release: each
// exec then costs one sync and not two. After a crash of the daemon notes are there all the same; a power cut may take those of this time.
const noteBound = 20 * time.Millisecond

// writer is the one goroutine that writes, with the place where the next line goes.
type writer struct {
	log  *Log
	file file
	position
	// durable is where the file can be cut back to: the end of the last record that was synced.
	durable position
	buffer  []byte
	// due is when what was written must be synced; nil while nothing waits for it.
	due <-chan time.Time
	// anchorDue is when a checkpoint must be made; nil while there is nothing new to sign.
	anchorDue <-chan time.Time
	// uncopied are lines that Copy hasn't got, of which the first surelyUncopied bytes are on the disk.
	uncopied       []byte
	surelyUncopied int
}

// position is a place between two lines of the log.
type position struct {
	path string
	// size is of the file, last the number of the record before, prev that record's digest.
	size int64
	last int64
	prev string
	// tree has all lines before, where checkpoints are made.
	tree tree
}

// put appends a record's line to buf and moves behind it.
func (p *position) put(buf []byte, now time.Time, members []byte, sign bool) []byte {
	start := len(buf)
	p.last++
	buf, p.prev = appendLine(buf, p.last, now, p.prev, members)
	if sign {
		p.tree.add(buf[start : len(buf)-1])
	}
	return buf
}

// run takes what is asked until it gets nil.
func (w *writer) run() {
	defer close(w.log.ended)
	for open := true; open; {
		var batch []*request
		batch, open = w.gather()
		w.take(batch)
		w.scheduleAnchor()
	}
	w.anchor()  // the seal, whose sync is that of the last notes too
	w.take(nil) // for those where nothing is signed
	if w.file != nil {
		w.file.Close()
	}
}

// gather waits for a request, or until notes are due, and takes all that wait behind it. A nil request is the last.
func (w *writer) gather() (batch []*request, open bool) {
	var r *request
	select {
	case r = <-w.log.queue:
	case <-w.due:
		return nil, true
	case <-w.anchorDue:
		w.anchor()
		return nil, true
	}
	for r != nil {
		if batch = append(batch, r); len(batch) == maxBatch {
			return batch, true
		}
		select {
		case r = <-w.log.queue:
		default:
			return batch, true
		}
	}
	return batch, false
}

// take records a batch: one write, the early answers, one sync, the others. A batch of notes alone is synced when it is due; an empty batch says that it is.
func (w *writer) take(batch []*request) {
	w.busy(time.Now())
	defer w.busy(time.Time{})
	numbers := make([]int64, len(batch))
	err := w.broken()
	for _, r := range batch {
		if r.reopen && err != nil {
			err = w.reopen()
			w.mark(err)
		}
	}
	if err == nil {
		err = w.write(batch, numbers)
		w.mark(err)
	}
	for i, r := range batch {
		if !r.durable || err != nil {
			r.answer <- answerOf(numbers[i], err)
		}
	}
	if err != nil {
		w.due = nil // reopen cuts back to what is durable
		return
	}
	if len(batch) > 0 && !slices.ContainsFunc(batch, func(r *request) bool { return r.durable || r.reopen }) {
		if w.due == nil {
			w.due = time.After(noteBound)
		}
		return
	}
	w.due = nil
	if err = w.sync(); err != nil {
		w.mark(err)
	}
	for i, r := range batch {
		if r.durable {
			r.answer <- answerOf(numbers[i], err)
		}
	}
}

func answerOf(sequence int64, err error) answer {
	if err != nil {
		return answer{0, fmt.Errorf("%w: %w", ErrBroken, err)}
	}
	return answer{sequence, nil}
}

// busy says since when the writer is at work.
func (w *writer) busy(since time.Time) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.busy = since
}

func (w *writer) broken() error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.broken
}

// mark says that the log is broken by err, or whole when err is nil.
func (w *writer) mark(err error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.broken = err
}

// write gives every record of a batch its place and hands the lines to the kernel. A full file ends before a batch, never within one.
func (w *writer) write(batch []*request, numbers []int64) error {
	if w.size >= w.log.options.FileBytes && len(batch) > 0 {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	next, now := w.position, w.log.options.Now()
	w.buffer = w.buffer[:0]
	for i, r := range batch {
		if r.reopen {
			continue
		}
		w.buffer = next.put(w.buffer, now, r.members, w.log.key != nil)
		numbers[i] = next.last
	}
	return w.flush(next)
}

// flush writes the buffer and moves to the position behind it.
func (w *writer) flush(next position) error {
	if len(w.buffer) == 0 {
		return nil
	}
	if _, err := w.file.Write(w.buffer); err != nil {
		return err
	}
	next.size += int64(len(w.buffer))
	w.position = next
	if w.log.options.Copy != nil {
		w.uncopied = append(w.uncopied, w.buffer...)
	}
	return nil
}

// sync makes what was written durable, and copies it then: what the copy has, the log has.
func (w *writer) sync() error {
	if w.position == w.durable {
		return w.copyOut()
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("fdatasync: %w", err)
	}
	w.durable = w.position
	w.log.mu.Lock()
	w.log.last = w.last
	w.log.mu.Unlock()
	w.surelyUncopied = len(w.uncopied)
	return w.copyOut()
}

// copyOut hands on what isn't copied. What fails is tried again from the byte where it failed.
func (w *writer) copyOut() error {
	if w.surelyUncopied == 0 {
		return nil
	}
	n, err := w.log.options.Copy.Write(w.uncopied[:w.surelyUncopied])
	w.uncopied = append(w.uncopied[:0], w.uncopied[n:]...)
	w.surelyUncopied -= n
	if err != nil {
		return fmt.Errorf("copy of the log: %w", err)
	}
	return nil
}

// rotate goes on in a new file, whose first record says where the chain comes from. The old file is durable by then.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	if err := w.writeAnchor(); err != nil {
		return err
	}
	old := w.position
	path := filepath.Join(w.log.dir, fileName(old.last+1))
	opened, err := w.open(path)
	if err != nil {
		return err
	}
	w.file.Close()
	w.file = opened
	w.position = position{path: path, last: old.last, prev: old.prev, tree: old.tree}
	return w.own(Record{Type: TypeRotate, Seam: &Seam{File: filepath.Base(old.path), Sequence: old.last}})
}

// own writes and syncs a record of the writer itself.
func (w *writer) own(r Record) error {
	members, err := encodeRecord(r)
	if err != nil {
		return err
	}
	return w.ownAt(w.log.options.Now(), members)
}

func (w *writer) ownAt(now time.Time, members []byte) error {
	next := w.position
	w.buffer = next.put(w.buffer[:0], now, members, w.log.key != nil)
	if err := w.flush(next); err != nil {
		return err
	}
	return w.sync()
}

// open opens a file of the log and makes its name durable.
func (w *writer) open(path string) (file, error) {
	opened, err := w.log.options.open(path)
	if err != nil {
		return nil, err
	}
	if err := syncDir(w.log.dir); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// reopen cuts the file back to the last durable record, since what is behind it was answered with an error and nothing depends on it, and goes on there.
func (w *writer) reopen() error {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
	if w.path != w.durable.path {
		// The rotation failed: its file has no durable record.
		if err := os.Remove(w.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	opened, err := w.open(w.durable.path)
	if err != nil {
		return err
	}
	w.file, w.position = opened, w.durable
	w.uncopied = w.uncopied[:w.surelyUncopied]
	if err := opened.Truncate(w.durable.size); err != nil {
		return err
	}
	return w.own(Record{Type: TypeReopen, Seam: &Seam{File: filepath.Base(w.durable.path), Sequence: w.durable.last}})
}

// openFile is the real open: O_APPEND, so that every write goes to the end.
func openFile(path string) (file, error) {
	opened, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{opened}, nil
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return datasync(f.File) }

func (o Options) withDefaults() Options {
	if o.FileBytes == 0 {
		o.FileBytes = 64 << 20
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.open == nil {
		o.open = underFault(openFile)
	}
	return o
}

// scheduleAnchor has a checkpoint made in time for what is new.
func (w *writer) scheduleAnchor() {
	if w.log.key != nil && w.anchorDue == nil && w.last != w.anchored() && w.broken() == nil {
		w.anchorDue = time.After(w.log.options.CheckpointEvery)
	}
}

func (w *writer) anchored() int64 {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.anchored
}

// anchor makes a checkpoint on all that was written, unless the last record is one.
func (w *writer) anchor() {
	w.anchorDue = nil
	if w.broken() != nil {
		return
	}
	w.busy(time.Now())
	defer w.busy(time.Time{})
	if err := w.writeAnchor(); err != nil {
		w.mark(err)
	}
}

func (w *writer) writeAnchor() error {
	if w.log.key == nil || w.last == w.anchored() {
		return nil
	}
	now := w.log.options.Now()
	said := signed{origin: w.log.key.public.Name(), size: w.tree.size, root: w.tree.root(), at: now}
	signedNote, err := note.Sign(&note.Note{Text: said.text()}, w.log.key.signer)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	members, err := encodeRecord(Record{Type: TypeCheckpoint, Checkpoint: &Checkpoint{Note: string(signedNote), Subtrees: w.tree.subtrees()}})
	if err != nil {
		return err
	}
	if err := w.ownAt(now, members); err != nil {
		return err
	}
	w.log.mu.Lock()
	w.log.anchored, w.log.anchoredAt = w.last, now
	w.log.mu.Unlock()
	return nil
}
