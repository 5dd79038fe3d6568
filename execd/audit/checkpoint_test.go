package audit

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// TestTreeIsThatOfTheField: after each line the root is what x/mod's tlog says of all lines, and the tree comes back from its subtrees.
func TestTreeIsThatOfTheField(t *testing.T) {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var list []tlog.Hash
		for _, i := range indexes {
			list = append(list, stored[i])
		}
		return list, nil
	})
	var own tree
	for n := range int64(70) {
		line := fmt.Appendf(nil, "line %d", n)
		hashes, err := tlog.StoredHashes(n, line, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		own.add(line)
		want, err := tlog.TreeHash(n+1, reader)
		if err != nil || own.root() != want {
			t.Fatalf("after %d lines: root %s, want %s (%v)", n+1, own.root(), want, err)
		}
		if back, ok := treeOf(own.size, own.subtrees()); !ok || back != own {
			t.Fatalf("after %d lines: the tree doesn't come back from its subtrees", n+1)
		}
	}
	if _, ok := treeOf(3, own.subtrees()[:1]); ok {
		t.Error("three lines from one subtree")
	}
}

// signedLog writes records in rounds, a checkpoint after each, and gives the key and the checkpoints.
func signedLog(t *testing.T, dir string, rounds int, records ...Record) (key note.Verifier, checkpoints []string) {
	t.Helper()
	for range rounds {
		l := mustOpen(t, dir, Options{Sign: true, FileBytes: 2000})
		mustAppend(t, l, records...)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		key, _ = ParsePublicKey(l.PublicKey())
	}
	for _, line := range lines(t, dir) {
		if e, err := parseLine(line); err == nil && e.Checkpoint != nil {
			checkpoints = append(checkpoints, e.Checkpoint.Note)
		}
	}
	return key, checkpoints
}

func lines(t *testing.T, dir string) (all [][]byte) {
	t.Helper()
	files, err := listFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, err := scan(file.path, func(line []byte) error { all = append(all, bytes.Clone(line)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestACheckpointSealsTheEnd: stopped and closed, a log is sealed; opened again it isn't, until the next checkpoint.
func TestACheckpointSealsTheEnd(t *testing.T) {
	dir := t.TempDir()
	key, checkpoints := signedLog(t, dir, 3, Record{Type: TypeStart}, Record{Type: TypeRelease, Exec: "a"}, Record{Type: TypeOutcome, Exec: "a"}, Record{Type: TypeStop})
	report, err := Verification{Key: key}.Verify(dir)
	if err != nil || !report.OK() || !report.Sealed || report.Unanchored != 0 || report.Anchored != report.Last || report.Files < 2 {
		t.Errorf("%+v, %v", report, err)
	}
	for i, checkpoint := range checkpoints {
		if report, err := (Verification{Key: key, Witness: checkpoint}).Verify(dir); err != nil || !report.OK() || !report.Witnessed {
			t.Errorf("with checkpoint %d: %+v, %v", i, report, err)
		}
	}
	l := mustOpen(t, dir, Options{Sign: true, CheckpointEvery: time.Hour})
	mustAppend(t, l, Record{Type: TypeStart}, Record{Type: TypeDecision})
	if report, err := (Verification{Key: key}).Verify(dir); err != nil || !report.OK() || report.Sealed || report.Unanchored != 2 {
		t.Errorf("in use: %+v, %v", report, err)
	}
	l.Close()
	if report, err := (Verification{Key: key}).Verify(dir); err != nil || !report.OK() || report.Sealed || report.Unanchored != 0 {
		t.Errorf("closed without a stop: %+v, %v", report, err)
	}
}

// TestCheckpointsComeByThemselves while there is something new, and not while there isn't.
func TestCheckpointsComeByThemselves(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{Sign: true, CheckpointEvery: time.Millisecond})
	mustAppend(t, l, Record{Type: TypeDecision})
	deadline := time.Now().Add(10 * time.Second)
	for at, _ := l.Anchor(); at == 0; at, _ = l.Anchor() {
		if time.Now().After(deadline) {
			t.Fatal("no checkpoint")
		}
		time.Sleep(time.Millisecond) // polls what the test is about
	}
	l.Close()
	if n := len(lines(t, dir)); n != 2 {
		t.Errorf("%d records, want one and its checkpoint", n)
	}
}

// TestALogThatIsWrittenAnewIsNamed: whoever can write the files, and has no key, can make a log whose chain holds; its checkpoints don't.
func TestALogThatIsWrittenAnewIsNamed(t *testing.T) {
	dir := t.TempDir()
	key, checkpoints := signedLog(t, dir, 2, Record{Type: TypeStart}, Record{Type: TypeDecision, Exec: "evil"}, Record{Type: TypeStop})
	rewrite := func(edit func(n int, line []byte) []byte) string {
		forged := t.TempDir()
		var buf []byte
		prev, n := origin, int64(0)
		for i, line := range lines(t, dir) {
			e, err := parseLine(line)
			if err != nil {
				t.Fatal(err)
			}
			if line = edit(i, line); line == nil {
				continue
			}
			n++
			start := bytes.Index(line, []byte(`,"type"`))
			end := bytes.LastIndex(line, []byte(hashOpen))
			buf, prev = appendLine(buf, n, e.Time, prev, line[start:end])
		}
		if err := os.WriteFile(filepath.Join(forged, fileName(1)), buf, 0o600); err != nil {
			t.Fatal(err)
		}
		if report := mustVerify(t, forged); !report.OK() {
			t.Fatalf("the forgery's own chain doesn't hold: %+v", report)
		}
		return forged
	}
	same := func(_ int, line []byte) []byte { return line }
	if report, _ := (Verification{Key: key}).Verify(rewrite(same)); !report.OK() || !report.Sealed {
		t.Errorf("the same again: %+v", report)
	}
	without := rewrite(func(n int, line []byte) []byte {
		if n == 1 {
			return nil
		}
		return line
	})
	if report, _ := (Verification{Key: key}).Verify(without); report.OK() || report.Bad.Sequence != 3 || !strings.Contains(report.Bad.Why, "written anew") {
		t.Errorf("a record less: %+v", report.Bad)
	}
	bare := rewrite(func(_ int, line []byte) []byte {
		if bytes.Contains(line, []byte(`"type":"checkpoint"`)) || bytes.Contains(line, []byte("evil")) {
			return nil
		}
		return line
	})
	if report, _ := (Verification{Key: key}).Verify(bare); !report.OK() || report.Sealed || report.Anchored != 0 || report.Unanchored != report.Last {
		t.Errorf("without any checkpoint: %+v", report)
	}
	if report, _ := (Verification{Key: key, Witness: checkpoints[1]}).Verify(bare); report.OK() || !strings.Contains(report.Bad.Why, "cut off") {
		t.Errorf("without any checkpoint, and one from elsewhere: %+v", report.Bad)
	}
	if report, _ := (Verification{Key: key, Witness: checkpoints[0]}).Verify(bare); report.OK() || !strings.Contains(report.Bad.Why, "written anew") {
		t.Errorf("without any checkpoint, and an earlier one from elsewhere: %+v", report.Bad)
	}
	private, _ := GenerateKey()
	other, _ := ParseKey(private)
	if report, _ := (Verification{Key: other.public}).Verify(dir); report.OK() || !strings.Contains(report.Bad.Why, "not signed by") {
		t.Errorf("with another key: %+v", report.Bad)
	}
	if _, err := (Verification{Key: other.public, Witness: checkpoints[0]}).Verify(dir); err == nil {
		t.Error("a checkpoint of another key from elsewhere is taken")
	}
}

// TestOneLogOneKey: a log isn't gone on with under another key, and a key that others may read is none.
func TestOneLogOneKey(t *testing.T) {
	dir := t.TempDir()
	signedLog(t, dir, 1, Record{Type: TypeStart})
	private, _ := GenerateKey()
	other, err := ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Sign: true, Key: other}); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("another key: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Sign: true}); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a key that all may read: %v", err)
	}
	for _, text := range []string{"", "PRIVATE+KEY+x", strings.Replace(private, keyNamePrefix, "other.", 1)} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}

// TestUnsignedLogIsSignedFromNowOn: what was written before checkpoints is covered by the first of them.
func TestUnsignedLogIsSignedFromNowOn(t *testing.T) {
	dir := t.TempDir()
	old := mustOpen(t, dir, Options{FileBytes: 700})
	for range 9 {
		mustAppend(t, old, Record{Type: TypeDecision})
	}
	old.Close()
	key, _ := signedLog(t, dir, 2, Record{Type: TypeStop})
	if report, err := (Verification{Key: key}).Verify(dir); err != nil || !report.OK() || !report.Sealed {
		t.Errorf("%+v, %v", report, err)
	}
	var e struct {
		Checkpoint Checkpoint `json:"checkpoint"`
	}
	all := lines(t, dir)
	if err := json.Unmarshal(all[len(all)-1], &e); err != nil || e.Checkpoint.Note == "" {
		t.Errorf("the last record is no checkpoint: %s, %v", all[len(all)-1], err)
	}
}

// TestTheTimeOfACheckpointIsSigned: of the last record, which nothing follows, nothing can be changed either.
func TestTheTimeOfACheckpointIsSigned(t *testing.T) {
	dir := t.TempDir()
	key, _ := signedLog(t, dir, 1, Record{Type: TypeStart}, Record{Type: TypeStop})
	files, err := listFiles(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := lines(t, dir)
	last, err := parseLine(all[len(all)-1])
	if err != nil {
		t.Fatal(err)
	}
	members, err := encodeRecord(Record{Type: TypeCheckpoint, Checkpoint: last.Checkpoint})
	if err != nil {
		t.Fatal(err)
	}
	forged := append(bytes.Join(all[:len(all)-1], []byte("\n")), '\n')
	for at, good := range map[time.Time]bool{last.Time: true, last.Time.Add(time.Hour): false} {
		line, _ := appendLine(nil, last.Sequence, at, last.Prev, members)
		if err := os.WriteFile(files[0].path, append(bytes.Clone(forged), line...), 0o600); err != nil {
			t.Fatal(err)
		}
		if report, err := (Verification{Key: key}).Verify(dir); err != nil || report.OK() != good {
			t.Errorf("at %s: %+v, %v", at, report, err)
		}
	}
}
