package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Report is what [Verify] found.
type Report struct {
	Files   int   `json:"files"`
	Records int64 `json:"records"`
	// Last is the number of the last good record, LastTime its time and LastHash the digest of its line: what an outside witness would note down.
	Last     int64     `json:"last"`
	LastTime time.Time `json:"lastTime,omitzero"`
	LastHash string    `json:"lastHash"`
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

// Verify reads a log, which may be in use, and follows its chain from the first record to the last. The error is for what can't be read; what
// is wrong with the log is in the report.
func Verify(dir string) (Report, error) {
	report := Report{LastHash: origin}
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
			tail, err = scan(file.path, func(line []byte) error { return report.follow(line, bad) })
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
	return report, nil
}

// follow takes one line: itself whole, in its place, and after the right one.
func (r *Report) follow(line []byte, bad func(string) error) error {
	e, err := parseLine(line)
	switch {
	case err != nil:
		return bad(err.Error())
	case e.Sequence != r.Last+1:
		return bad(fmt.Sprintf("the record here has number %d: one was taken out, put in or moved", e.Sequence))
	case e.Prev != r.LastHash:
		return bad("it doesn't follow the record before: that one was replaced, or this one")
	}
	r.Records++
	r.Last, r.LastTime, r.LastHash = e.Sequence, e.Time, digestOf(line)
	return nil
}
