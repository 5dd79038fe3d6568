package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Report is what [Verify] found.
type Report struct {
	Files   int   `json:"files"`
	Records int64 `json:"records"`
	// Last is the number of the last good record, LastTime its time and LastHash the digest of its line: what an outside witness would note down.
	Last     int64     `json:"last"`
	LastTime time.Time `json:"lastTime,omitzero"`
	LastHash string    `json:"lastHash"`
	// Anchored is the record of the last good checkpoint, which vouches for all before it and for itself; AnchoredTime its time. 0: there is none, or no key
	// was given. Unanchored is how many records are behind it.
	Anchored     int64     `json:"anchored"`
	AnchoredTime time.Time `json:"anchoredTime,omitzero"`
	Unanchored   int64     `json:"unanchored"`
	// Sealed says that a daemon ended on purpose and its last checkpoint covers everything, so that nothing is missing at the end of what it wrote. That it
	// is the last daemon's end, only a witness outside can say.
	Sealed bool `json:"sealed"`
	// Witnessed says that the log has what a checkpoint noted elsewhere says.
	Witnessed bool `json:"witnessed"`
	// TornBytes are behind the last newline: a write that a crash cut short, or one that is going on.
	TornBytes int64 `json:"tornBytes"`
	// Bad is the first record that isn't what the chain says; nil: the log holds as far as it goes.
	Bad *Bad `json:"bad,omitempty"`
}

// Bad is the first bad record.
type Bad struct {
	// Sequence is the number that the record at this place must have.
	Sequence int64  `json:"sequence"`
	File     string `json:"file"`
	Why      string `json:"why"`
}

// OK says that every whole record is where and what it must be.
func (r Report) OK() bool { return r.Bad == nil }

// Verification is what a log is held against besides itself.
type Verification struct {
	// Key is what its checkpoints must be signed by; nil: they are taken for ordinary records.
	Key note.Verifier
	// Witness is a checkpoint of this log that was kept elsewhere, empty: none. It needs Key.
	Witness string
}

// Verify reads a log, which may be in use, and follows its chain from the first record to the last. The error is for what can't be read; what
// is wrong with the log is in the report.
func Verify(dir string) (Report, error) { return Verification{}.Verify(dir) }

// Verify is [Verify] with checkpoints.
func (v Verification) Verify(dir string) (Report, error) {
	report := Report{LastHash: origin}
	follower := follower{Report: &report, key: v.Key}
	if v.Witness != "" {
		if v.Key == nil {
			return report, errors.New("audit: a checkpoint from elsewhere needs the public key")
		}
		var err error
		if follower.witness, err = openCheckpoint(v.Witness, v.Key); err != nil {
			return report, fmt.Errorf("audit: the checkpoint from elsewhere: %w", err)
		}
	}
	files, err := listFiles(dir)
	if err != nil {
		return report, fmt.Errorf("audit: %w", err)
	}
	for i, file := range files {
		bad := func(why string) error {
			report.Bad = &Bad{Sequence: report.Last + 1, File: filepath.Base(file.path), Why: why}
			return errStop
		}
		report.Files++
		var tail []byte
		var err error
		if file.first == report.Last+1 {
			tail, err = scan(file.path, func(line []byte) error { return follower.follow(line, bad) })
		} else {
			err = bad(fmt.Sprintf("the file begins with %d: records are missing, or are there twice", file.first))
		}
		if err == nil && len(tail) > 0 {
			report.TornBytes = int64(len(tail))
			if i < len(files)-1 {
				err = bad("a torn line in a file that others follow")
			}
		}
		if errors.Is(err, errStop) {
			return report, nil
		}
		if err != nil {
			return report, fmt.Errorf("audit: %w", err)
		}
	}
	if witness := follower.witness; witness.size > report.Last {
		report.Bad = &Bad{Sequence: report.Last + 1, Why: fmt.Sprintf("the log ends here, and a checkpoint of %s has %d records: the rest was cut off",
			witness.at.Format(time.RFC3339), witness.size)}
	}
	return report, nil
}

// follower is a report in the making.
type follower struct {
	*Report
	key     note.Verifier
	witness signed
	// stopped says that the record before is a stop, tree has all lines so far.
	stopped bool
	tree    tree
}

// follow takes one line: itself whole, in its place, and after the right one.
func (r *follower) follow(line []byte, bad func(string) error) error {
	e, err := parseLine(line)
	switch {
	case err != nil:
		return bad(err.Error())
	case e.Sequence != r.Last+1:
		return bad(fmt.Sprintf("the record here has number %d: one was taken out, put in or moved", e.Sequence))
	case e.Prev != r.LastHash:
		return bad("it doesn't follow the record before: that one was replaced, or this one")
	}
	sealed := false
	if r.key != nil {
		if e.Type == TypeCheckpoint {
			if why := r.hold(e); why != "" {
				return bad(why)
			}
			r.Anchored, r.AnchoredTime, sealed = e.Sequence, e.Time, r.stopped
		}
		r.tree.add(line)
		if r.tree.size == r.witness.size {
			if r.tree.root() != r.witness.root {
				return bad(fmt.Sprintf("up to here the log isn't what a checkpoint of %s says: it was written anew", r.witness.at.Format(time.RFC3339)))
			}
			r.Witnessed = true
		}
	}
	r.Records++
	r.Last, r.LastTime, r.LastHash = e.Sequence, e.Time, digestOf(line)
	r.Sealed, r.stopped, r.Unanchored = sealed, e.Type == TypeStop, r.Last-r.Anchored
	return nil
}

// hold says what is wrong with a checkpoint's record, which is at its place and comes after the right one.
func (r *follower) hold(e entry) string {
	if e.Checkpoint == nil {
		return "a checkpoint without its note"
	}
	said, err := openCheckpoint(e.Checkpoint.Note, r.key)
	switch {
	case err != nil:
		return "a checkpoint that is " + err.Error()
	case said.size != r.tree.size || said.root != r.tree.root() || !said.at.Equal(e.Time):
		return fmt.Sprintf("the checkpoint signs %d other records than those before it: the log was written anew", said.size)
	}
	return ""
}
