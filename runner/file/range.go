package file

import (
	"strconv"
	"strings"
)

// Range is a part of a file, of one of the forms of RFC 9110: from First to Last, from First to the end (Last -1), the last Suffix bytes. The zero
// value is the whole file.
type Range struct {
	Given  bool  `json:"given,omitzero"`
	First  int64 `json:"first,omitzero"`
	Last   int64 `json:"last,omitzero"`
	Suffix int64 `json:"suffix,omitzero"`
}

// ParseRange reads the header Range. What isn't a range of bytes is none: RFC 9110 has a server ignore it and answer the whole. So are several at
// once.
func ParseRange(header string) Range {
	unit, spec, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return Range{}
	}
	from, to, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return Range{}
	}
	first, last := position(from), position(to)
	switch {
	case from == "" && last >= 0:
		return Range{Given: true, First: -1, Suffix: last}
	case first >= 0 && to == "":
		return Range{Given: true, First: first, Last: -1}
	case first >= 0 && last >= first:
		return Range{Given: true, First: first, Last: last}
	}
	return Range{}
}

// position is a number of digits only, -1 for anything else. One that doesn't fit is beyond every file.
func position(digits string) int64 {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return -1
	}
	value, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return value
}

// resolve is the part of a file of that size; part says that it is less than the answer to no range. A range that begins behind the end is
// refused, but of an empty file: there is nothing to be missed, and clients that read "at most so many bytes" would fail on every empty file.
func (r Range) resolve(size int64) (offset, length int64, part bool, err error) {
	if !r.Given || size == 0 {
		return 0, size, false, nil
	}
	if r.First < 0 {
		length = min(r.Suffix, size)
		if length == 0 {
			return 0, 0, false, r.beyond(size)
		}
		return size - length, length, true, nil
	}
	if r.First >= size {
		return 0, 0, false, r.beyond(size)
	}
	end := size
	if r.Last >= 0 && r.Last < size {
		end = r.Last + 1
	}
	return r.First, end - r.First, true, nil
}

func (r Range) beyond(size int64) error {
	return &Fault{Code: BadRange, Message: "the range begins behind the end; the file has " + strconv.FormatInt(size, 10) + " bytes", Size: size}
}
