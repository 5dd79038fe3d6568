package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eitherWay runs a test with openat2 and with the walk that stands in for it: the results must be the same.
func eitherWay(t *testing.T, test func(t *testing.T)) {
	for _, refused := range []error{nil, unix.ENOSYS, unix.EPERM} {
		name := "openat2"
		if refused != nil {
			name = unix.ErrnoName(refused.(unix.Errno))
		}
		t.Run(name, func(t *testing.T) {
			defer func() { openat2, haveOpenat2 = unix.Openat2, sync.OnceValue(askOpenat2) }()
			if refused != nil {
				openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, refused }
			}
			haveOpenat2 = sync.OnceValue(askOpenat2)
			if haveOpenat2() != (refused == nil) {
				t.Skip("this kernel has no openat2")
			}
			test(t)
		})
	}
}

// tree is a base to act in, with something beside it that nothing may reach.
func tree(t *testing.T) (base string) {
	t.Helper()
	dir := t.TempDir()
	base = filepath.Join(dir, "base")
	for _, path := range []string{"base/a/b", "outside"} {
		must(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "outside/secret"), []byte("secret"), 0o600))
	must(t, os.WriteFile(filepath.Join(base, "a/file"), []byte("0123456789"), 0o640))
	must(t, os.WriteFile(filepath.Join(base, "empty"), nil, 0o600))
	must(t, os.Symlink("../outside", filepath.Join(base, "out")))
	must(t, os.Symlink("../outside/secret", filepath.Join(base, "link")))
	must(t, os.Symlink("a", filepath.Join(base, "inner")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(base, "magic")))
	must(t, unix.Mkfifo(filepath.Join(base, "fifo"), 0o600))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(socket) })
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(base, "socket")}))
	return base
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes content whole, or what frames there are.
func put(t *testing.T, o Order, frames []byte) Result {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	go func() {
		_, _ = write.Write(frames)
		write.Close()
	}()
	defer read.Close()
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	o.Operation = Write
	return Do(o, read)
}

func framed(content string) []byte {
	var out bytes.Buffer
	_, _ = SendFrames(&out, strings.NewReader(content), 1<<20)
	return out.Bytes()
}

// got is a read's answer.
type got struct {
	header  Header
	content string
	Result
}

func get(t *testing.T, o Order) got {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	answer := make(chan got)
	go func() {
		var g got
		var err error
		if g.header, err = ReadHeader(read); err == nil {
			content, _ := io.ReadAll(read)
			g.content = string(content)
		} else if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		answer <- g
	}()
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	o.Operation = Read
	result := Do(o, write)
	write.Close()
	g := <-answer
	read.Close()
	g.Result = result
	return g
}

func wantFault(t *testing.T, what string, r Result, code Code, kind string) {
	t.Helper()
	if r.Fault == nil || r.Fault.Code != code || kind != "" && r.Fault.Kind != kind {
		t.Errorf("%s: %+v, want %s %s", what, r.Fault, code, kind)
	}
}

// F7, F8, F9: no path leads out.
func TestPathsThatLeadOut(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		for _, test := range []struct {
			path string
			code Code
		}{
			{"a/../../outside/secret", Outside}, {"../outside/secret", Outside}, {"/etc/passwd", Outside}, {"a//file", Outside}, {"./a/file", Outside},
			{"out/secret", Link}, {"link", Link}, {"inner/file", Link}, {"magic/etc/passwd", Link}, {"magic", Link},
			{"a/nothing", NotFound}, {"nowhere/file", NotFound}, {"a/file/x", NotDirectory}, {strings.Repeat("x", 300), BadName},
		} {
			g := get(t, Order{Base: base, Path: test.path})
			wantFault(t, "read "+test.path, g.Result, test.code, "")
			if g.content != "" {
				t.Errorf("read %s: %q", test.path, g.content)
			}
			for _, operation := range []string{Stat, Mode} {
				wantFault(t, operation+" "+test.path, Do(Order{Operation: operation, Base: base, Path: test.path, Mode: 0o777}, nil), test.code, "")
			}
			if test.code == NotFound {
				continue // a write makes it
			}
			wantFault(t, "write "+test.path, put(t, Order{Base: base, Path: test.path, Mode: -1, Parents: true}, framed("x")), test.code, "")
		}
		if secret, _ := os.ReadFile(filepath.Join(base, "../outside/secret")); string(secret) != "secret" {
			t.Errorf("outside: %q", secret)
		}
		wantFault(t, "/proc/self/root", Do(Order{Operation: List, Base: "/proc", Path: "self/root"}, nil), Link, "")
		wantFault(t, "another mount", Do(Order{Operation: List, Base: "/", Path: "proc/sys"}, nil), Outside, "")
	})
}

// F10: what isn't a regular file is refused by its kind, at once.
func TestKinds(t *testing.T) {
	base := tree(t)
	for path, kind := range map[string]string{"a": KindDirectory, "fifo": KindFIFO, "socket": KindSocket} {
		wantFault(t, path, get(t, Order{Base: base, Path: path}).Result, NotFile, kind)
		wantFault(t, path, put(t, Order{Base: base, Path: path, Mode: -1}, framed("x")), NotFile, kind)
		wantFault(t, path, Do(Order{Operation: Stat, Base: base, Path: path}, nil), NotFile, kind)
	}
	wantFault(t, "/dev/zero", get(t, Order{Base: "/dev", Path: "zero"}).Result, NotFile, KindCharacter)
	wantFault(t, "the base", get(t, Order{Base: base}).Result, NotFile, KindDirectory)
	wantFault(t, "a directory", Do(Order{Operation: Delete, Base: base, Path: "a"}, nil), NotFile, KindDirectory)
	wantFault(t, "a file as directory", Do(Order{Operation: List, Base: base, Path: "a/file"}, nil), NotDirectory, "")
	// The name of anything else can be taken away; what a link leads to stays.
	for _, path := range []string{"fifo", "socket", "link", "out", "a/file"} {
		if r := Do(Order{Operation: Delete, Base: base, Path: path}, nil); r.Fault != nil {
			t.Errorf("delete %s: %+v", path, r.Fault)
		}
	}
	if _, err := os.Stat(filepath.Join(base, "../outside/secret")); err != nil {
		t.Error(err)
	}
}

func TestRead(t *testing.T) {
	base := tree(t)
	for _, test := range []struct {
		path, header string
		content      string
		part         bool
		offset       int64
		code         Code
	}{
		{"a/file", "", "0123456789", false, 0, ""},
		{"a/file", "bytes=2-4", "234", true, 2, ""},
		{"a/file", "bytes=0-99999999999999999999", "0123456789", true, 0, ""},
		{"a/file", "bytes=7-", "789", true, 7, ""},
		{"a/file", "bytes=-3", "789", true, 7, ""},
		{"a/file", "bytes=-30", "0123456789", true, 0, ""},
		{"a/file", "bytes=10-", "", false, 0, BadRange},
		{"a/file", "bytes=-0", "", false, 0, BadRange},
		{"a/file", "bytes=4-2", "0123456789", false, 0, ""},
		{"a/file", "bytes=0-1,3-4", "0123456789", false, 0, ""},
		{"a/file", "lines=0-1", "0123456789", false, 0, ""},
		{"a/file", "bytes=+1-2", "0123456789", false, 0, ""},
		{"empty", "", "", false, 0, ""},
		{"empty", "bytes=0-100", "", false, 0, ""},
		{"empty", "bytes=5-", "", false, 0, ""},
		{"empty", "bytes=-5", "", false, 0, ""},
	} {
		g := get(t, Order{Base: base, Path: test.path, Range: ParseRange(test.header)})
		if test.code != "" {
			wantFault(t, test.header, g.Result, test.code, "")
			continue
		}
		if g.Fault != nil || g.content != test.content || g.header.Part != test.part || g.header.Offset != test.offset ||
			g.Bytes != int64(len(test.content)) || g.header.Info.Kind != KindFile {
			t.Errorf("%s %q: %+v", test.path, test.header, g)
		}
	}
	if g := get(t, Order{Base: base, Path: "a/file"}); g.header.Info.Mode != "0640" || time.Since(g.header.Info.ModifiedAt) > time.Minute {
		t.Errorf("%+v", g.header)
	}
	g := get(t, Order{Base: base, Path: "a/file", Limit: 9})
	wantFault(t, "over the cap", g.Result, TooLarge, "")
	if g.Fault.Size != 10 {
		t.Errorf("%+v", g.Fault)
	}
	if g := get(t, Order{Base: base, Path: "a/file", Limit: 9, Range: ParseRange("bytes=0-8")}); g.content != "012345678" {
		t.Errorf("%+v", g)
	}
}

// F13: what grows meanwhile doesn't make the answer longer; what shrinks ends it, and both are told.
func TestFileThatChangesWhileItIsRead(t *testing.T) {
	base := tree(t)
	path := filepath.Join(base, "big")
	for _, size := range []int64{4 << 20, 1 << 20} {
		must(t, os.WriteFile(path, make([]byte, 2<<20), 0o600))
		read, write, err := os.Pipe()
		must(t, err)
		length := make(chan int64)
		go func() {
			header, err := ReadHeader(read)
			if err != nil || header.Length != 2<<20 {
				t.Error(header, err)
			}
			must(t, os.Truncate(path, size)) // the child is in the middle: a pipe holds no more
			n, _ := io.Copy(io.Discard, read)
			length <- n
		}()
		r := Do(Order{Operation: Read, Base: base, Path: "big", Limit: 8 << 20}, write)
		write.Close()
		if n := <-length; n != r.Bytes || !r.Changed || n > 2<<20 || (r.Fault != nil) != (size < 2<<20) {
			t.Errorf("%d bytes, %+v", n, r)
		}
	}
}

func TestWrite(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		old, err := os.Open(filepath.Join(base, "a/file"))
		must(t, err)
		defer old.Close()
		for _, test := range []struct {
			path    string
			mode    int
			want    string
			created bool
		}{
			{"a/file", -1, "0640", false}, {"a/file", 0o604, "0604", false}, {"a/new", -1, "0644", true}, {"a/b/c/d/new", 0o666, "0666", true},
		} {
			r := put(t, Order{Base: base, Path: test.path, Mode: test.mode, Parents: true}, framed("content"))
			if r.Fault != nil || r.Created != test.created || r.Bytes != 7 || r.Info.Mode != test.want || r.Info.Size != 7 {
				t.Errorf("%s: %+v %+v", test.path, r, r.Info)
			}
			if content, err := os.ReadFile(filepath.Join(base, test.path)); string(content) != "content" || err != nil {
				t.Errorf("%s: %q %v", test.path, content, err)
			}
		}
		if content, _ := io.ReadAll(old); string(content) != "0123456789" {
			t.Errorf("whoever has the old file open reads %q", content)
		}
		wantFault(t, "no parents", put(t, Order{Base: base, Path: "x/y", Mode: -1}, framed("x")), NotFound, "")
		large := strings.Repeat("x", 3*pieceBytes+17)
		if r := put(t, Order{Base: base, Path: "large", Mode: -1}, framed(large)); r.Fault != nil || r.Bytes != int64(len(large)) {
			t.Errorf("%+v", r)
		}
	})
}

// A content that is cut, too long or no content at all leaves the old file and nothing beside it, also where a file can't be without a name.
func TestWriteThatFails(t *testing.T) {
	testWriteThatFails(t)
	unnamed = 0
	defer func() { unnamed = unix.O_TMPFILE }()
	testWriteThatFails(t)
	base := tree(t)
	if r := put(t, Order{Base: base, Path: "a/file", Mode: -1}, framed("new")); r.Fault != nil || r.Info.Mode != "0640" {
		t.Errorf("%+v", r)
	}
	wantNothingLeft(t, filepath.Join(base, "a"), "b", "file")
}

func testWriteThatFails(t *testing.T) {
	base := tree(t)
	whole := framed("new content")
	cases := map[string]struct {
		frames []byte
		limit  int64
		code   Code
	}{
		"nothing":        {nil, 0, Incomplete},
		"no end":         {whole[:len(whole)-4], 0, Incomplete},
		"half a frame":   {whole[:8], 0, Incomplete},
		"half a length":  {whole[:2], 0, Incomplete},
		"over the cap":   {whole, 10, TooLarge},
		"a giant's word": {binary.LittleEndian.AppendUint32(nil, 1<<31), 0, Failed},
	}
	for name, test := range cases {
		r := put(t, Order{Base: base, Path: "a/file", Mode: -1, Limit: test.limit}, test.frames)
		wantFault(t, name, r, test.code, "")
	}
	if content, _ := os.ReadFile(filepath.Join(base, "a/file")); string(content) != "0123456789" {
		t.Errorf("%q", content)
	}
	wantNothingLeft(t, filepath.Join(base, "a"), "b", "file")
}

func wantNothingLeft(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var have []string
	for _, entry := range entries {
		have = append(have, entry.Name())
	}
	if !slices.Equal(have, names) {
		t.Errorf("%s has %q, want %q", dir, have, names)
	}
}

// F11 and F16: a mode is given to the very file, never through a link.
func TestMode(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		for path, want := range map[string]string{"a/file": "0600", "a": "0600", "empty": "0600"} {
			if r := Do(Order{Operation: Mode, Base: base, Path: path, Mode: 0o600}, nil); r.Fault != nil || r.Info.Mode != want {
				t.Errorf("%s: %+v", path, r)
			}
			must(t, os.Chmod(filepath.Join(base, path), 0o755))
		}
		must(t, os.Chmod(filepath.Join(base, "empty"), 0))
		if r := Do(Order{Operation: Mode, Base: base, Path: "empty", Mode: 0o644}, nil); r.Fault != nil { // nobody could open it
			t.Errorf("%+v", r)
		}
		wantFault(t, "link", Do(Order{Operation: Mode, Base: base, Path: "link", Mode: 0o777}, nil), Link, KindLink)
		must(t, os.Link(filepath.Join(base, "../outside/secret"), filepath.Join(base, "hard")))
		wantFault(t, "hard link", Do(Order{Operation: Mode, Base: base, Path: "hard", Mode: 0o777}, nil), HardLink, "")
		if stat, _ := os.Stat(filepath.Join(base, "../outside/secret")); stat.Mode() != 0o600 {
			t.Errorf("%v", stat.Mode())
		}
		// A write puts another file in its place.
		if r := put(t, Order{Base: base, Path: "hard", Mode: -1}, framed("mine")); r.Fault != nil {
			t.Errorf("%+v", r)
		}
		if secret, _ := os.ReadFile(filepath.Join(base, "../outside/secret")); string(secret) != "secret" {
			t.Errorf("%q", secret)
		}
	})
}

func TestList(t *testing.T) {
	base := tree(t)
	must(t, os.WriteFile(filepath.Join(base, "a/b/\xff"), []byte("x"), 0o600))
	r := Do(Order{Operation: List, Base: base, Limit: 1 << 20}, nil)
	var lines []string
	for _, entry := range r.Entries {
		lines = append(lines, entry.Name+" "+entry.Kind)
	}
	want := []string{"a directory", "empty file", "fifo FIFO", "inner symbolic link", "link symbolic link", "magic symbolic link", "out symbolic link", "socket socket"}
	if r.Fault != nil || !slices.Equal(lines, want) || r.Truncated {
		t.Errorf("%+v", r)
	}
	if r := Do(Order{Operation: List, Base: base, Path: "a/b", Limit: 1 << 20}, nil); len(r.Entries) != 1 || r.Entries[0].Name != "" || string(r.Entries[0].NameBase64) != "\xff" {
		t.Errorf("%+v", r)
	}
	if r := Do(Order{Operation: List, Base: base, Limit: 1500}, nil); !r.Truncated || len(r.Entries) == 0 || len(r.Entries) == 8 {
		t.Errorf("%+v", r)
	}
	many := filepath.Join(base, "many")
	must(t, os.Mkdir(many, 0o755))
	for i := range mostEntries + 1 {
		must(t, os.Link(filepath.Join(base, "empty"), filepath.Join(many, fmt.Sprint(i))))
	}
	if r := Do(Order{Operation: List, Base: many, Limit: 1 << 30}, nil); !r.Truncated || len(r.Entries) != mostEntries {
		t.Errorf("%d entries, %v, %v", len(r.Entries), r.Truncated, r.Fault)
	}
}

// F8: somebody swaps a directory with a link that leads out, and a file with a link and a FIFO, as fast as it can. Nothing outside is read, written,
// changed or removed, and nothing hangs.
func TestRaces(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		at := func(name string) string { return filepath.Join(base, name) }
		must(t, os.Mkdir(at("swap"), 0o755))
		must(t, os.WriteFile(at("swap/secret"), []byte("public"), 0o600))
		must(t, os.WriteFile(at("name"), []byte("public"), 0o600))
		must(t, os.Symlink("../outside/secret", at("other")))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = unix.Renameat2(unix.AT_FDCWD, at("swap"), unix.AT_FDCWD, at("out"), unix.RENAME_EXCHANGE)
				_ = unix.Renameat2(unix.AT_FDCWD, at("name"), unix.AT_FDCWD, at("other"), unix.RENAME_EXCHANGE)
				_ = unix.Renameat2(unix.AT_FDCWD, at("name"), unix.AT_FDCWD, at("fifo"), unix.RENAME_EXCHANGE)
			}
		}()
		codes := map[Code]int{}
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			path := []string{"swap/secret", "name", "out/secret", "fifo"}[rand.IntN(4)]
			var r Result
			switch rand.IntN(5) {
			case 0:
				r = put(t, Order{Base: base, Path: path, Mode: 0o600}, framed("public"))
			case 1:
				r = Do(Order{Operation: Mode, Base: base, Path: path, Mode: 0o640}, nil)
			case 2:
				r = Do(Order{Operation: Delete, Base: base, Path: "swap/new"}, nil)
			case 3:
				r = put(t, Order{Base: base, Path: "swap/new", Mode: -1}, framed("public"))
			default:
				g := get(t, Order{Base: base, Path: path})
				if r = g.Result; strings.Contains(g.content, "secret") {
					t.Fatal("the secret got out")
				}
			}
			if r.Fault == nil {
				codes[""]++
			} else {
				codes[r.Fault.Code]++
			}
		}
		close(stop)
		<-stopped
		t.Log(codes)
		if codes[Link] == 0 || codes[""] == 0 || codes[Failed] != 0 {
			t.Errorf("%v: both sides must have won at times, and no fault be without a name", codes)
		}
		wantNothingLeft(t, at("../outside"), "secret")
		stat, err := os.Stat(at("../outside/secret"))
		must(t, err)
		if secret, _ := os.ReadFile(at("../outside/secret")); string(secret) != "secret" || stat.Mode() != 0o600 {
			t.Errorf("%q %v", secret, stat.Mode())
		}
	})
}

// F15: each of the ways in which a file system is full or closed has a word of its own.
func TestFaultsHaveNames(t *testing.T) {
	seen := map[Code]bool{}
	for _, errno := range []unix.Errno{unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.ENAMETOOLONG} {
		f := faultOf(fmt.Errorf("wrapped: %w", errno), -1)
		if f.Code == Failed || seen[f.Code] || f.Errno != unix.ErrnoName(errno) || f.Message == "" {
			t.Errorf("%v: %+v", errno, f)
		}
		seen[f.Code] = true
	}
	if f := faultOf(unix.EIO, -1); f.Code != Failed || f.Errno != "EIO" {
		t.Errorf("%+v", f)
	}
}

func FuzzParseRange(f *testing.F) {
	for _, header := range []string{"", "bytes=0-", "bytes=-1", "bytes=1-2", "bytes=9-3", "bytes=0-1,2-3", "bytes=99999999999999999999-"} {
		f.Add(header, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		size = max(size, 0)
		offset, length, part, err := ParseRange(header).resolve(size)
		if offset < 0 || length < 0 || offset > size || length > size-offset || part && (length == 0 || err != nil) {
			t.Errorf("%q of %d: %d+%d %v %v", header, size, offset, length, part, err)
		}
	})
}
