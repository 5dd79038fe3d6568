package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Unfinished is an exec that was released and has no outcome.
type Unfinished struct {
	Exec     string
	Sandbox  string
	Sequence int64 // of the release
}

// Open opens the log in dir for its one writer, making it when it isn't there. A torn last line, which a crash in the middle of a write leaves,
// is cut off and recorded. Anything else that is wrong at the end of the log is an error: [Verify] says what, and a log in another
// directory is the way on.
func Open(dir string, o Options) (*Log, error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	held, err := lock(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{
		dir: dir, options: o.withDefaults(), lock: held,
		queue: make(chan *request, maxBatch), ended: make(chan struct{}),
	}
	w := &writer{log: l}
	if l.key, err = o.key(dir); err == nil {
		err = w.start()
	}
	if err != nil {
		if w.file != nil {
			w.file.Close()
		}
		held.Close()
		return nil, fmt.Errorf("audit: %w", err)
	}
	go w.run()
	return l, nil
}

// key is what signs in a directory, nil where nothing does.
func (o Options) key(dir string) (*Key, error) {
	if !o.Sign {
		return nil, nil
	}
	key := o.Key
	if key == nil {
		var err error
		if key, err = keyOf(dir); err != nil {
			return nil, err
		}
	}
	return key, key.publish(dir)
}

// start finds the end of the log and cuts a torn line off it.
func (w *writer) start() error {
	files, err := listFiles(w.log.dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		w.position = position{path: filepath.Join(w.log.dir, fileName(1)), prev: origin}
		w.file, err = w.open(w.path)
		w.durable = w.position
		return err
	}
	end, tail, err := findEnd(files)
	if err != nil {
		return err
	}
	if w.log.unfinished, err = findUnfinished(files); err != nil {
		return err
	}
	if w.log.key != nil {
		if end.tree, err = w.growTree(files, end.last); err != nil {
			return err
		}
	}
	w.position, w.durable, w.log.last = end, end, end.last
	if w.file, err = w.open(end.path); err != nil {
		return err
	}
	if len(tail) == 0 {
		return nil
	}
	if err := w.file.Truncate(end.size); err != nil {
		return err
	}
	return w.own(Record{Type: TypeTorn, Seam: &Seam{
		File: filepath.Base(end.path), Sequence: end.last, CutBytes: int64(len(tail)), CutDigest: digestOf(tail),
	}})
}

// findEnd reads the last record. A file without a whole line is what a crash in a rotation leaves: the chain then ends in the one before.
func findEnd(files []logFile) (end position, tail []byte, err error) {
	for i, file := range slices.Backward(files) {
		info, err := os.Stat(file.path)
		if err != nil {
			return end, nil, err
		}
		end = position{path: file.path, size: info.Size(), last: file.first - 1, prev: origin}
		tail, err = scanBack(file.path, func(line []byte) error {
			e, err := parseLine(line)
			if err != nil {
				return fmt.Errorf("%s: the last record: %w", file.path, err)
			}
			end.last, end.prev = e.Sequence, digestOf(line)
			return errStop
		})
		end.size -= int64(len(tail))
		switch {
		case errors.Is(err, errStop):
			return end, tail, nil
		case err != nil:
			return end, tail, err
		case i == 0 && file.first == 1:
			return end, tail, nil
		case i == 0:
			return end, tail, fmt.Errorf("%s: empty, and the files before it are gone", file.path)
		}
		if err := os.Remove(file.path); err != nil {
			return end, nil, err
		}
	}
	return end, tail, nil
}

// findUnfinished looks for releases without an ending, back to the last start record: a daemon settles what the one before it left before it
// writes its own start. The records on the way must be whole and follow one another.
func findUnfinished(files []logFile) ([]Unfinished, error) {
	var unfinished []Unfinished
	ended := map[string]bool{}
	var after *entry
	for _, file := range slices.Backward(files) {
		_, err := scanBack(file.path, func(line []byte) error {
			e, err := parseLine(line)
			switch {
			case err != nil:
			case after != nil && after.Sequence != e.Sequence+1:
				err = fmt.Errorf("%d follows %d", after.Sequence, e.Sequence)
			case after != nil && after.Prev != digestOf(line):
				err = fmt.Errorf("record %d doesn't follow record %d as it is", after.Sequence, e.Sequence)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", file.path, err)
			}
			after = &e
			switch e.Type {
			case TypeStart:
				return errStop
			case TypeRelease:
				if !ended[e.Exec] {
					unfinished = append(unfinished, Unfinished{Exec: e.Exec, Sandbox: e.Sandbox, Sequence: e.Sequence})
				}
			case TypeOutcome, TypeInterrupted:
				ended[e.Exec] = true
			}
			return nil
		})
		if errors.Is(err, errStop) {
			break
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) { // findEnd has taken an empty file away
			return nil, err
		}
	}
	slices.Reverse(unfinished)
	return unfinished, nil
}

// growTree is the tree of all lines: that of the last good checkpoint of ours, and what follows it. Without one it is every line there is.
func (w *writer) growTree(files []logFile, last int64) (grown tree, err error) {
	var after []tlog.Hash // of each line, from the last
	found := false
	for _, file := range slices.Backward(files) {
		_, err := scanBack(file.path, func(line []byte) error {
			after = append(after, tlog.RecordHash(line))
			e, err := parseLine(line)
			if err != nil {
				return fmt.Errorf("%s: %w", file.path, err)
			}
			if grown, found = e.anchoredTree(w.log.key.public); !found {
				return nil
			}
			if w.log.anchored == 0 {
				w.log.anchored, w.log.anchoredAt = e.Sequence, e.Time
			}
			return errStop
		})
		if found {
			break
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return grown, err
		}
	}
	for _, leaf := range slices.Backward(after) {
		grown.addLeaf(leaf)
	}
	if grown.size != last {
		return grown, fmt.Errorf("%d records are here, and the last is %d: some are missing", grown.size, last)
	}
	return grown, nil
}

// anchoredTree is the tree that a checkpoint's record stands for, if it is one that key has signed.
func (e entry) anchoredTree(key note.Verifier) (tree, bool) {
	if e.Type != TypeCheckpoint || e.Checkpoint == nil {
		return tree{}, false
	}
	said, err := openCheckpoint(e.Checkpoint.Note, key)
	if err != nil || said.size != e.Sequence-1 {
		return tree{}, false
	}
	t, ok := treeOf(said.size, e.Checkpoint.Subtrees)
	return t, ok && t.root() == said.root
}
