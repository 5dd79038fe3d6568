package audit

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// Query says which records are wanted. What is zero asks for nothing.
type Query struct {
	// From and To are numbers of records, both included; Since and Until times, the second not included.
	From, To     int64
	Since, Until time.Time
	// Exec, Sandbox and Decision are ids, Type a record's type.
	Exec, Sandbox, Decision string
	Type                    Type
	// Of takes those records only that name this caller, process and gid aside; nil: all.
	Of *policy.Caller
	// Limit is how many records a page has at most; it ends before that at pageBytes.
	Limit int
}

// Page is a part of the answer to a query.
type Page struct {
	// Records are lines as the log has them, in order.
	Records []jsontext.Value
	// Next is where the next page begins ([Query].From), 0: this is the last as the log is now.
	Next int64
}

// pageBytes is how much a page has of records, unless a single one is larger; scanBytes how much of the log is read for it, so that a rare record in a long
// log costs pages and not memory or time without bound.
const (
	pageBytes = 4 << 20
	scanBytes = 256 << 20
)

// found is as much of a line as a query looks at.
type found struct {
	Sequence int64          `json:"seq"`
	Time     time.Time      `json:"time"`
	Type     Type           `json:"type"`
	Exec     string         `json:"exec"`
	Sandbox  string         `json:"sandbox"`
	Caller   *policy.Caller `json:"caller"`
	Decision struct {
		ID string `json:"id"`
	} `json:"decision"`
}

func (q Query) takes(f found) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(q.Exec, f.Exec) && is(q.Sandbox, f.Sandbox) && is(q.Decision, f.Decision.ID) && is(string(q.Type), string(f.Type)) &&
		(q.Since.IsZero() || !f.Time.Before(q.Since)) && (q.Until.IsZero() || f.Time.Before(q.Until)) &&
		(q.Of == nil || f.Caller != nil && f.Caller.UID == q.Of.UID && f.Caller.Via == q.Of.Via && f.Caller.Name == q.Of.Name)
}

// Read reads a page of a log, which may be in use, up to the record last; 0: as far as whole lines go. It proves nothing: that is [Verify]'s.
func Read(dir string, q Query, last int64) (Page, error) {
	var page Page
	files, err := listFiles(dir)
	if err != nil {
		return page, fmt.Errorf("audit: %w", err)
	}
	q.From = max(q.From, 1)
	// The file that has From is the last that begins at or before it.
	begin, exact := slices.BinarySearchFunc(files, q.From, func(f logFile, n int64) int { return int(min(max(f.first-n, -1), 1)) })
	if !exact && begin > 0 {
		begin--
	}
	size, scanned := 0, 0
	for _, file := range files[begin:] {
		_, err := scan(file.path, func(line []byte) error {
			number, ok := sequenceOf(line)
			switch {
			case !ok:
				return fmt.Errorf("%s: a line that is no record; sandboxd audit verify says more", file.path)
			case number < q.From:
				return nil
			case q.To != 0 && number > q.To, last != 0 && number > last:
				return errStop
			case len(page.Records) > 0 && (len(page.Records) == q.Limit || size+len(line) > pageBytes), scanned > scanBytes:
				page.Next = number
				return errStop
			}
			scanned += len(line)
			var f found
			if err := json.Unmarshal(line, &f); err != nil {
				return fmt.Errorf("%s: record %d: %w", file.path, number, err)
			}
			if q.takes(f) {
				page.Records = append(page.Records, bytes.Clone(line))
				size += len(line)
			}
			return nil
		})
		if errors.Is(err, errStop) {
			return page, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a rotation that failed took an empty file away
			return page, fmt.Errorf("audit: %w", err)
		}
	}
	return page, nil
}

// Last is the number of a log's last record, 0 where there is none.
func Last(dir string) (int64, error) {
	files, err := listFiles(dir)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	for _, file := range slices.Backward(files) {
		last := int64(0)
		_, err := scanBack(file.path, func(line []byte) error {
			last, _ = sequenceOf(line)
			return errStop
		})
		if errors.Is(err, errStop) {
			return last, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("audit: %w", err)
		}
	}
	return 0, nil
}

// sequenceOf reads a line's number without the rest.
func sequenceOf(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	end := bytes.IndexByte(rest, ',')
	if !ok || end < 0 {
		return 0, false
	}
	number, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return number, err == nil
}
