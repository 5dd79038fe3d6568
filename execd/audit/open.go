package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if err := w.start(); err != nil {
		if w.file != nil {
			w.file.Close()
		}
		held.Close()
		return nil, fmt.Errorf("audit: %w", err)
	}
	go w.run()
	return l, nil
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

// findEnd reads the last file. A file without a whole line is what a crash in a rotation leaves: the chain then ends in the one before.
func findEnd(files []logFile) (end position, tail []byte, err error) {
	for i, file := range slices.Backward(files) {
		end = position{path: file.path, last: file.first - 1, prev: origin}
		tail, err = scan(file.path, func(line []byte) error {
			e, err := parseLine(line)
			switch {
			case err != nil:
			case e.Sequence != end.last+1:
				err = fmt.Errorf("its number is %d", e.Sequence)
			case e.Prev != end.prev && (end.size > 0 || file.first == 1):
				err = errors.New("it doesn't follow the record before")
			}
			if err != nil {
				return fmt.Errorf("%s: record %d: %w", file.path, end.last+1, err)
			}
			end.size += int64(len(line)) + 1
			end.last, end.prev = e.Sequence, digestOf(line)
			return nil
		})
		if err != nil || end.size > 0 {
			return end, tail, err
		}
		if i == 0 {
			if file.first != 1 {
				return end, tail, fmt.Errorf("%s: empty, and the files before it are gone", file.path)
			}
			return end, tail, nil
		}
		if err := os.Remove(file.path); err != nil {
			return end, nil, err
		}
	}
	return end, tail, nil
}

// findUnfinished looks for releases without an ending, back to the last start record that a daemon wrote: a daemon settles what the one before
// it left before it writes its own start.
func findUnfinished(files []logFile) ([]Unfinished, error) {
	var later []map[string]Unfinished
	ended := map[string]bool{}
	for _, file := range slices.Backward(files) {
		open, started := map[string]Unfinished{}, false
		_, err := scan(file.path, func(line []byte) error {
			e, err := parseLine(line)
			if err != nil {
				return nil // named by findEnd or Verify; an unreadable record ends nothing
			}
			switch e.Type {
			case TypeStart:
				clear(open)
				started = true
			case TypeRelease:
				open[e.Exec] = Unfinished{Exec: e.Exec, Sandbox: e.Sandbox, Sequence: e.Sequence}
			case TypeOutcome, TypeInterrupted:
				delete(open, e.Exec)
				ended[e.Exec] = true
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		later = append(later, open)
		if started {
			break
		}
	}
	var unfinished []Unfinished
	for _, open := range later {
		for id, u := range open {
			if !ended[id] {
				unfinished = append(unfinished, u)
			}
		}
	}
	slices.SortFunc(unfinished, func(a, b Unfinished) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return unfinished, nil
}
