package spool

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// check writes a text in pieces, and holds that it is what is read, where it should be, and gone afterwards.
func check(t *testing.T, s *Store, dir string, length int) {
	t.Helper()
	before := descriptors(t)
	want := bytes.Repeat([]byte("0123456"), length/7+1)[:length]
	text := s.Text()
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 100_000)
		if _, err := text.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	got, err := io.ReadAll(text.Reader(0, text.Len()))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back as %d: %v", length, len(got), err)
	}
	if length > 10 {
		if part, err := io.ReadAll(text.Reader(3, 9)); err != nil || !bytes.Equal(part, want[3:9]) {
			t.Errorf("a part of it is %q: %v", part, err)
		}
	}
	if bulk := text.Bulk(); bulk.Bytes != int64(length) || bulk.Sum != sha256.Sum256(want) {
		t.Errorf("its bulk is %+v", bulk)
	}
	short, isShort := text.Short()
	if isShort != (length <= InMemory) || isShort && !bytes.Equal(short, want) {
		t.Errorf("%d bytes are in memory: %t", length, isShort)
	}
	if held := s.Held(); isShort && held != 0 || !isShort && held != int64(length) {
		t.Errorf("%d bytes are held for %d", held, length)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("the directory has %v", names)
	}
	text.Close()
	text.Close()
	if s.Held() != 0 || descriptors(t) != before {
		t.Errorf("%d bytes and %d descriptors are left", s.Held(), descriptors(t)-before)
	}
}

func TestText(t *testing.T) {
	for name, flag := range map[string]int{"without a name": unix.O_TMPFILE, "a name taken away": 0} {
		t.Run(name, func(t *testing.T) {
			defer func(had int) { unnamed = had }(unnamed)
			unnamed = flag
			dir := filepath.Join(t.TempDir(), "spool")
			s, err := New(dir, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info, err)
			}
			for _, length := range []int{0, 1, InMemory, InMemory + 1, 1 << 20} {
				check(t, s, dir, length)
			}
		})
	}
}

func TestBudget(t *testing.T) {
	s, err := New(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	one, two := s.Text(), s.Text()
	piece := make([]byte, InMemory+1)
	for range 3 {
		if _, err := one.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := two.Write(piece); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the budget: %v", err)
	}
	two.Close()
	one.Close()
	if s.Held() != 0 {
		t.Errorf("%d bytes are held", s.Held())
	}
}

// TestLeftovers: a name that a daemon left which died, and nothing else, goes at the next start.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".spool-1", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(dir, 1); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 || filepath.Base(left[0]) != "other" {
		t.Errorf("left: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".spool*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestNoSpace has the kernel's own ENOSPC.
func TestNoSpace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a small file system, for one thread")
	}
	runtime.LockOSThread() // and not unlocked: the thread, which alone sees the mount, ends with the test
	dir := t.TempDir()
	for _, err := range []error{
		unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	s, err := New(dir, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	text := s.Text()
	_, err = text.Write(make([]byte, 1<<20))
	if !errors.Is(err, ErrNoSpace) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	text.Close()
	check(t, s, dir, InMemory+1)
	// Something is left for others, who write records.
	text = s.Text()
	for err = nil; err == nil; {
		_, err = text.Write(make([]byte, 4<<10))
	}
	var disk unix.Statfs_t
	if failed := unix.Statfs(dir, &disk); failed != nil || !errors.Is(err, ErrNoSpace) || int64(disk.Bavail)*disk.Bsize < 64<<10 {
		t.Errorf("%v; %d blocks are left (%v)", err, disk.Bavail, failed)
	}
	text.Close()
}
