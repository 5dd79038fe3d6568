package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("AUDIT_TEST_APPEND"); dir != "" {
		appendForever(dir)
	}
	goleak.VerifyTestMain(m)
}

func mustOpen(t *testing.T, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustAppend(t *testing.T, l *Log, records ...Record) {
	t.Helper()
	for _, r := range records {
		if _, err := l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func mustVerify(t *testing.T, dir string) Report {
	t.Helper()
	report, err := Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAppendNumbersRecordsAcrossOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	for round := range 3 {
		l := mustOpen(t, dir, Options{})
		for i := range 4 {
			got, err := l.Append(t.Context(), Record{Type: TypeDecision, Exec: "e"})
			if want := int64(round*4 + i + 1); err != nil || got != want {
				t.Fatalf("Append = %d, %v; want %d", got, err, want)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := mustVerify(t, dir); !got.OK() || got.Records != 12 || got.Files != 1 {
		t.Errorf("Verify = %+v", got)
	}
}

func TestAppendersShareSyncs(t *testing.T) {
	const appenders = 200
	var syncs atomic.Int64
	first, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	l := mustOpen(t, t.TempDir(), Options{open: faulty(func(string) error {
		syncs.Add(1)
		once.Do(func() { close(first); <-release })
		return nil
	}, nil)})
	var group sync.WaitGroup
	add := func() {
		if _, err := l.Append(t.Context(), Record{Type: TypeDecision}); err != nil {
			t.Error(err)
		}
	}
	group.Go(add)
	<-first
	// While the first one's sync hangs, the others queue up.
	for range appenders {
		group.Go(add)
	}
	for len(l.queue) < appenders {
		syscall.Getpid() // yields to the appenders
	}
	close(release)
	group.Wait()
	if got := syncs.Load(); got > 3 {
		t.Errorf("%d appends took %d syncs, want at most 3", appenders+1, got)
	}
}

func TestRotationCarriesTheChain(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{FileBytes: 1000})
	for i := range 50 {
		mustAppend(t, l, Record{Type: TypeDecision, Exec: fmt.Sprint(i)})
	}
	l.Close()
	report := mustVerify(t, dir)
	if !report.OK() || report.Files < 5 || report.Records != int64(50+report.Files-1) {
		t.Errorf("Verify = %+v: want 50 records and one rotate record in each file but the first", report)
	}
	files, _ := listFiles(dir)
	for _, file := range files[1:] {
		data, _ := os.ReadFile(file.path)
		first, _, _ := strings.Cut(string(data), "\n")
		if e, err := parseLine([]byte(first)); err != nil || e.Type != TypeRotate || e.Sequence != file.first {
			t.Errorf("%s begins with %s (%v)", file.path, first, err)
		}
	}
	// A missing file in the middle is a gap, and so is a missing first one.
	for _, i := range []int{0, 2} {
		moved := files[i].path
		if err := os.Rename(moved, moved+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(moved+".away", filepath.Join(t.TempDir(), "away")); err != nil {
			t.Fatal(err)
		}
		if got := mustVerify(t, dir); got.OK() || got.Bad.Sequence > files[i].first {
			t.Errorf("without %s: %+v", moved, got)
		}
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, Options{})
	if l, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open = %v, %v; want ErrLocked", l, err)
	}
}

func TestOpenRefusesADirectoryOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "0777") {
		t.Errorf("Open of a 0777 directory: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link, Options{}); err == nil {
		t.Error("Open of a symlink: no error")
	}
	if os.Geteuid() == 0 { // who else could give it away
		others := t.TempDir()
		if err := errors.Join(os.Chmod(others, 0o700), os.Chown(others, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(others, Options{}); err == nil || !strings.Contains(err.Error(), "12345") {
			t.Errorf("Open of another's directory: %v", err)
		}
	}
}

func TestTornLineIsCutOffAndRecorded(t *testing.T) {
	for _, torn := range []string{`{"seq":3,"ti`, "\x00\x00\x00\x00"} {
		dir := t.TempDir()
		l := mustOpen(t, dir, Options{})
		mustAppend(t, l, Record{Type: TypeStart}, Record{Type: TypeDecision})
		l.Close()
		path := filepath.Join(dir, fileName(1))
		appendTo(t, path, torn)
		if got := mustVerify(t, dir); !got.OK() || got.TornBytes != int64(len(torn)) || got.Last != 2 {
			t.Errorf("before: %+v", got)
		}
		l = mustOpen(t, dir, Options{})
		mustAppend(t, l, Record{Type: TypeDecision})
		l.Close()
		if got := mustVerify(t, dir); !got.OK() || got.TornBytes != 0 || got.Last != 4 {
			t.Errorf("after: %+v", got)
		}
		data, _ := os.ReadFile(path)
		if !strings.Contains(string(data), fmt.Sprintf(`"type":"torn","seam":{"file":"%s","sequence":2,"cutBytes":%d`, fileName(1), len(torn))) {
			t.Errorf("no torn record in\n%s", data)
		}
	}
}

func TestOpenRefusesATamperedEnd(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	mustAppend(t, l, Record{Type: TypeStart}, Record{Type: TypeDecision, Exec: "honest"})
	l.Close()
	path := filepath.Join(dir, fileName(1))
	data, _ := os.ReadFile(path)
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), "honest", "forged", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "the last record: its bytes don't have the hash") {
		t.Errorf("Open = %v; want an error that says what is wrong", err)
	}
}

func TestUnfinishedExecs(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{FileBytes: 700}) // several files
	release := func(id string) Record { return Record{Type: TypeRelease, Exec: id} }
	mustAppend(t, l, release("ancient"), Record{Type: TypeInterrupted, Exec: "ancient"}, Record{Type: TypeStart})
	for i := range 8 {
		mustAppend(t, l, release(fmt.Sprint(i)))
	}
	for _, i := range []int{0, 2, 3, 5, 6, 7} {
		mustAppend(t, l, Record{Type: TypeOutcome, Exec: fmt.Sprint(i)})
	}
	l.Close()
	l = mustOpen(t, dir, Options{})
	got := l.Unfinished()
	if len(got) != 2 || got[0].Exec != "1" || got[1].Exec != "4" {
		t.Errorf("Unfinished = %+v, want 1 and 4", got)
	}
}

// TestScanBackIsScanReversed on files whose lines lie across blocks in every way.
func TestScanBackIsScanReversed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{
		"", "\n", "a", "a\n", "a\nb", "\n\n", "a\n\nb\n", strings.Repeat("x", 64<<10) + "\n", strings.Repeat("y", 64<<10-1) + "\nz\n",
		strings.Repeat(strings.Repeat("line ", 200)+"\n", 500) + "tail", strings.Repeat("\n", 200_000), strings.Repeat("w", 300_000) + "\nv",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var forth, back []string
		tail, err := scan(path, func(line []byte) error { forth = append(forth, string(line)); return nil })
		if err != nil {
			t.Fatal(err)
		}
		backTail, err := scanBack(path, func(line []byte) error { back = append(back, string(line)); return nil })
		slices.Reverse(back)
		if err != nil || string(tail) != string(backTail) || !slices.Equal(forth, back) {
			t.Errorf("%.20q…: %d lines and tail %.20q, back %d and %.20q, %v", text, len(forth), tail, len(back), backTail, err)
		}
	}
	if err := os.WriteFile(path, make([]byte, 2*maxLine), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scanBack(path, func([]byte) error { return nil }); err == nil {
		t.Error("an endless line: no error")
	}
}

func TestCancelledAppendIsNotASuccess(t *testing.T) {
	hang := make(chan struct{})
	l := mustOpen(t, t.TempDir(), Options{open: faulty(func(string) error { <-hang; return nil }, nil)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := l.Append(ctx, Record{Type: TypeRelease})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Append = %v, want context.Canceled", err)
	}
	close(hang)
	l.Close()
	if _, err := l.Append(t.Context(), Record{Type: TypeRelease}); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close = %v, want ErrClosed", err)
	}
}

func TestRecordsThatCannotBe(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{})
	for name, r := range map[string]Record{
		"no type":  {},
		"too long": {Type: TypeDecision, Message: strings.Repeat("x", maxLine)},
	} {
		if _, err := l.Append(t.Context(), r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	mustAppend(t, l, Record{Type: TypeDecision}) // the log goes on
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
