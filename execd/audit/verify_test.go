package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestVerifyNamesTheFirstBadRecord edits a log of eight records in every way at every place.
func TestVerifyNamesTheFirstBadRecord(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	for i := range 8 {
		mustAppend(t, l, Record{Type: TypeDecision, Exec: fmt.Sprintf("exec-%d", i)})
	}
	l.Close()
	path := filepath.Join(dir, fileName(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))[:8]
	edits := []struct {
		name string
		edit func(lines [][]byte, i int) [][]byte
		// bad is the number that must be named when line i (from 0) was edited; 0: nothing can be seen.
		bad func(i int) int64
	}{
		{"change a byte", func(lines [][]byte, i int) [][]byte {
			lines[i] = bytes.Replace(lines[i], []byte("exec-"), []byte("EXEC-"), 1)
			return lines
		}, func(i int) int64 { return int64(i + 1) }},
		{"change and hash anew", func(lines [][]byte, i int) [][]byte {
			e, _ := parseLine(bytes.TrimSuffix(lines[i], []byte("\n")))
			members, _ := encodeRecord(Record{Type: TypeDecision, Exec: "forged"})
			lines[i], _ = appendLine(nil, e.Sequence, e.Time, e.Prev, members)
			return lines
		}, func(i int) int64 {
			if i == 7 {
				return 0 // the last record has no one who vouches for it
			}
			return int64(i + 2)
		}},
		{"remove", func(lines [][]byte, i int) [][]byte {
			return slices.Delete(lines, i, i+1)
		}, func(i int) int64 {
			if i == 7 {
				return 0 // a tail that is cut at a record's end needs a witness outside
			}
			return int64(i + 1)
		}},
		{"repeat", func(lines [][]byte, i int) [][]byte {
			return slices.Insert(lines, i, lines[i])
		}, func(i int) int64 { return int64(i + 2) }},
		{"swap with the next", func(lines [][]byte, i int) [][]byte {
			j := min(i+1, 7)
			lines[i], lines[j] = lines[j], lines[i]
			return lines
		}, func(i int) int64 {
			if i == 7 {
				return 0
			}
			return int64(i + 1)
		}},
		{"insert rubbish", func(lines [][]byte, i int) [][]byte {
			return slices.Insert(lines, i, []byte("{}\n"))
		}, func(i int) int64 { return int64(i + 1) }},
		{"insert an empty line", func(lines [][]byte, i int) [][]byte {
			return slices.Insert(lines, i, []byte("\n"))
		}, func(i int) int64 { return int64(i + 1) }},
		{"take the newline out", func(lines [][]byte, i int) [][]byte {
			lines[i] = bytes.TrimSuffix(lines[i], []byte("\n"))
			return lines
		}, func(i int) int64 {
			if i == 7 {
				return 0 // torn
			}
			return int64(i + 1)
		}},
	}
	for _, e := range edits {
		for i := range lines {
			edited := bytes.Join(e.edit(slices.Clone(lines), i), nil)
			if err := os.WriteFile(path, edited, 0o600); err != nil {
				t.Fatal(err)
			}
			report := mustVerify(t, dir)
			got := int64(0)
			if !report.OK() {
				got = report.Bad.Sequence
			}
			if got != e.bad(i) {
				t.Errorf("%s, line %d: bad record %d (%+v), want %d", e.name, i+1, got, report.Bad, e.bad(i))
			}
		}
	}
}

// TestVerifyOfEveryTruncation: a log cut at any byte verifies as far as it goes, and the rest of a line is told as torn.
func TestVerifyOfEveryTruncation(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	mustAppend(t, l, Record{Type: TypeStart}, Record{Type: TypeDecision}, Record{Type: TypeStop})
	l.Close()
	path := filepath.Join(dir, fileName(1))
	whole, _ := os.ReadFile(path)
	for size := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		report := mustVerify(t, dir)
		lines := bytes.Count(whole[:size], []byte("\n"))
		torn := size - (bytes.LastIndexByte(whole[:size], '\n') + 1)
		if !report.OK() || report.Records != int64(lines) || report.TornBytes != int64(torn) {
			t.Fatalf("cut at %d: %+v; want %d records and %d torn bytes", size, report, lines, torn)
		}
	}
}

func TestVerifyRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	mustAppend(t, l, Record{Type: TypeStart})
	l.Close()
	if err := os.WriteFile(filepath.Join(dir, "audit-1.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir); err == nil {
		t.Error("a file that isn't the log's was passed over")
	}
	if _, err := Verify(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("Verify of no directory: no error")
	}
}

func TestOneRecordOneLine(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	mustAppend(t, l, Record{Type: TypeDecision, Message: "a\n{\"seq\":2}\r\x1b[31m\u2028\x00\xff\xfe", Exec: "\n\n"})
	l.Close()
	data, _ := os.ReadFile(filepath.Join(dir, fileName(1)))
	if bytes.Count(data, []byte("\n")) != 1 || bytes.ContainsAny(data, "\r\x1b\x00") {
		t.Errorf("not one clean line: %q", data)
	}
	if report := mustVerify(t, dir); !report.OK() || report.Records != 1 {
		t.Errorf("Verify = %+v", report)
	}
}

// FuzzVerify: whatever a file has in it, Verify and Open come back with a word; what verifies can be opened and gone on with.
func FuzzVerify(f *testing.F) {
	line, _ := appendLine(nil, 1, time.Unix(0, 0), origin, []byte(`,"type":"start"`))
	f.Add([]byte{})
	f.Add(line)
	f.Add(line[:len(line)-3])
	f.Add(append(line, '\n'))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName(1)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		report := mustVerify(t, dir)
		l, err := Open(dir, Options{})
		if !report.OK() {
			if err == nil {
				l.Close()
			}
			return
		}
		if err != nil {
			t.Fatalf("verified with %+v, and Open: %v", report, err)
		}
		mustAppend(t, l, Record{Type: TypeDecision})
		l.Close()
		if after := mustVerify(t, dir); !after.OK() || after.Last <= report.Last || after.TornBytes != 0 {
			t.Errorf("%+v became %+v", report, after)
		}
	})
}
