package audit

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

// faultyFile is a real file with faults: before a sync, and in place of a write, of which half still reaches the file.
type faultyFile struct {
	file
	path        string
	sync, write func(path string) error
}

func faulty(sync, write func(path string) error) func(string) (file, error) {
	return func(path string) (file, error) {
		real, err := openFile(path)
		return &faultyFile{real, path, sync, write}, err
	}
}

func (f *faultyFile) Write(data []byte) (int, error) {
	if f.write != nil {
		if err := f.write(f.path); err != nil {
			n, _ := f.file.Write(data[:len(data)/2])
			return n, err
		}
	}
	return f.file.Write(data)
}

func (f *faultyFile) Sync() error {
	if f.sync != nil {
		if err := f.sync(f.path); err != nil {
			return err
		}
	}
	return f.file.Sync()
}

// TestFaultsBreakTheLogUntilReopened: with the disk failing at each point in turn, an append fails, all later ones are refused though the disk
// is well again, and after Reopen the log goes on and verifies.
func TestFaultsBreakTheLogUntilReopened(t *testing.T) {
	var failing atomic.Pointer[error]
	fault := func(string) error {
		if err := failing.Load(); err != nil {
			return *err
		}
		return nil
	}
	for name, open := range map[string]func(string) (file, error){
		"write": faulty(nil, fault),
		"sync":  faulty(fault, nil),
		"create": func(path string) (file, error) {
			if err := fault(path); err != nil {
				return nil, err
			}
			return openFile(path)
		},
	} {
		for _, errno := range []error{syscall.ENOSPC, syscall.EIO} {
			t.Run(name+"/"+errno.Error(), func(t *testing.T) {
				dir := t.TempDir()
				l := mustOpen(t, dir, Options{FileBytes: 600, open: open})
				good := 0
				for range 3 {
					mustAppend(t, l, Record{Type: TypeDecision, Exec: "good"})
					good++
				}
				failing.Store(&errno)
				var err error
				for range 5 { // a create is due once the file is full
					if _, err = l.Append(t.Context(), Record{Type: TypeRelease, Exec: "lost"}); err != nil {
						break
					}
					good++
				}
				if !errors.Is(err, errno) || !errors.Is(err, ErrBroken) {
					t.Fatalf("Append on a failing disk = %v, want %v and ErrBroken", err, errno)
				}
				if err := l.Reopen(t.Context()); !errors.Is(err, errno) {
					t.Errorf("Reopen on a failing disk = %v", err)
				}
				failing.Store(nil)
				if _, err := l.Append(t.Context(), Record{Type: TypeRelease, Exec: "lost"}); !errors.Is(err, ErrBroken) || l.Err() == nil {
					t.Errorf("Append before Reopen = %v, Err = %v; want ErrBroken", err, l.Err())
				}
				if err := l.Reopen(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustAppend(t, l, Record{Type: TypeDecision, Exec: "good"})
				good++
				l.Close()

				if report := mustVerify(t, dir); !report.OK() || report.TornBytes != 0 {
					t.Errorf("Verify = %+v", report)
				}
				if got := countExec(t, dir); got["lost"] != good-4 && got["lost"] != 0 || got["good"]+got["lost"] != good {
					t.Errorf("the log has %v, want the %d acknowledged records", got, good)
				}
			})
		}
	}
}

// TestFullDevice has the kernel's own ENOSPC.
func TestFullDevice(t *testing.T) {
	full := func(string) (file, error) {
		opened, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		return osFile{opened}, err
	}
	l := mustOpen(t, t.TempDir(), Options{open: full})
	if _, err := l.Append(t.Context(), Record{Type: TypeRelease}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Append = %v, want ENOSPC", err)
	}
}

// TestCrashedRotation: the new file is there and empty, or begins with half a record.
func TestCrashedRotation(t *testing.T) {
	for _, half := range []string{"", `{"seq":3,"time":"20`} {
		dir := t.TempDir()
		l := mustOpen(t, dir, Options{})
		mustAppend(t, l, Record{Type: TypeStart}, Record{Type: TypeDecision})
		l.Close()
		if err := os.WriteFile(filepath.Join(dir, fileName(3)), []byte(half), 0o600); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, dir, Options{})
		mustAppend(t, l, Record{Type: TypeDecision})
		l.Close()
		if report := mustVerify(t, dir); !report.OK() || report.Last < 3 {
			t.Errorf("%q: Verify = %+v", half, report)
		}
	}
}

func countExec(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := listFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, f := range files {
		_, err := scan(f.path, func(line []byte) error {
			e, err := parseLine(line)
			if e.Exec != "" {
				count[e.Exec]++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return count
}
