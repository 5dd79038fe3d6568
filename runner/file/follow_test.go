package file

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// followed carries out an order without content.
func followed(t *testing.T, o Order) Result {
	t.Helper()
	o.Follow = true
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	return Do(o, nil)
}

// followedFault wants that fault, or none at all.
func followedFault(t *testing.T, what string, r Result, want Code) {
	t.Helper()
	switch {
	case r.Fault == nil && want != "":
		t.Errorf("%s: no fault, want %s", what, want)
	case r.Fault != nil && r.Fault.Code != want:
		t.Errorf("%s: %s: %s, want %q", what, r.Fault.Code, r.Fault.Message, want)
	}
}

// asNobody leaves out for root what is about permissions.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	t.Skip("root may do everything here; test/user.sh runs this as an ordinary user")
}

func TestFollowedPathsMeanWhatTheyMeanToACommand(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		must(t, os.Symlink(filepath.Join(base, "a/file"), filepath.Join(base, "absolute")))
		must(t, os.Symlink("absolute", filepath.Join(base, "twice")))
		must(t, os.Symlink("nothing/x", filepath.Join(base, "dangling")))
		must(t, os.Symlink("loop", filepath.Join(base, "loop")))
		for path, want := range map[string]string{
			"a/file": "0123456789", "absolute": "0123456789", "twice": "0123456789", "inner/file": "0123456789", "inner/../a/./file": "0123456789",
			"out/../base//a/file": "0123456789", "link": "secret", "empty": "",
		} {
			if g := get(t, Order{Operation: Read, Path: base + "/" + path, Follow: true, Mode: -1}); g.Fault != nil || g.content != want {
				t.Errorf("%s: %q, want %q (%v)", path, g.content, want, g.Fault)
			}
		}
		for path, want := range map[string]Code{
			"dangling": NotFound, "loop": Link, "missing": NotFound, "a": NotFile, "": NotFile, "fifo": NotFile, "socket": NotFile, "a/file/": NotDirectory,
			"a/file/x": NotDirectory, "..": NotFile, "loop/x": Link,
		} {
			if g := get(t, Order{Operation: Read, Path: base + "/" + path, Follow: true}); g.Fault == nil || g.Fault.Code != want {
				t.Errorf("%s: %v, want %s", path, g.Fault, want)
			}
		}
		for _, path := range []string{"", "a/file", "/a\x00b"} {
			followedFault(t, path, followed(t, Order{Operation: Stat, Path: path}), Outside)
		}
	})
}

// TestFollowedLinkOfAnother: what somebody else has put into a directory for everybody isn't followed.
func TestFollowedLinkOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has files that are another's")
	}
	base := tree(t)
	for _, row := range []struct {
		mode  os.FileMode
		owner int
		want  Code
	}{{0o777 | os.ModeSticky, 12345, Forbidden}, {0o777 | os.ModeSticky, 0, ""}, {0o777, 12345, ""}, {0o755 | os.ModeSticky, 12345, ""}} {
		dir, err := os.MkdirTemp(base, "shared")
		must(t, err)
		must(t, os.Chmod(dir, row.mode))
		must(t, os.Symlink("../a/file", dir+"/link"))
		must(t, os.Lchown(dir+"/link", row.owner, row.owner))
		g := get(t, Order{Operation: Read, Path: dir + "/link", Follow: true})
		followedFault(t, fmt.Sprint(row), g.Result, row.want)
		followedFault(t, fmt.Sprint(row), put(t, Order{Path: dir + "/link", Follow: true, Mode: -1}, framed("new")), row.want)
	}
}

// TestFollowedMagicLink: a link of /proc isn't a name, and leads where none does.
func TestFollowedMagicLink(t *testing.T) {
	followedFault(t, "a root", followed(t, Order{Operation: Stat, Path: "/proc/self/root/etc"}), Link)
	file, err := os.Open("/dev/null")
	must(t, err)
	defer file.Close()
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	defer write.Close()
	// Its text is no path, so that nothing is opened by it.
	g := get(t, Order{Operation: Read, Path: fmt.Sprintf("/proc/self/fd/%d", read.Fd()), Follow: true})
	if g.Fault == nil || g.Fault.Code != NotFound {
		t.Errorf("%v", g.Fault)
	}
}

func TestFollowedInfo(t *testing.T) {
	base := tree(t)
	names := filepath.Join(base, "passwd")
	must(t, os.WriteFile(names, fmt.Appendf(nil, "# x\nbroken\nme:x:%d:0::/:\nlater:x:%[1]d:\n", os.Getuid()), 0o600))
	defer func(users, groups string) { passwdFile, groupFile = users, groups }(passwdFile, groupFile)
	passwdFile, groupFile = names, filepath.Join(base, "fifo") // which nobody writes to: it must not be waited for
	for path, kind := range map[string]string{"a": KindDirectory, "a/file": KindFile, "link": KindLink, "fifo": KindFIFO, "": KindDirectory, "inner/": KindDirectory} {
		r := followed(t, Order{Operation: Stat, Path: base + "/" + path})
		if r.Fault != nil || len(r.Found) != 1 || path != "inner/" && r.Found[0].Kind != kind {
			t.Errorf("%s: %+v %v", path, r.Found, r.Fault)
			continue
		}
		if i := r.Found[0]; i.Owner != "me" || i.Group != strconv.Itoa(os.Getgid()) || i.CreatedAt.IsZero() || i.ModifiedAt.IsZero() {
			t.Errorf("%s: %+v", path, i)
		}
	}
}

func TestFollowedWrite(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		write := func(path string, o Order) Result {
			o.Path, o.Follow, o.Parents = base+"/"+path, true, true
			return put(t, o, framed("new"))
		}
		followedFault(t, "through a link", write("link", Order{Mode: -1}), "")
		if text, err := os.ReadFile(filepath.Join(base, "../outside/secret")); err != nil || string(text) != "new" {
			t.Errorf("%q %v", text, err)
		}
		if info, err := os.Lstat(filepath.Join(base, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link: %v %v", info, err)
		}
		followedFault(t, "parents behind a link", write("inner/x/y/z", Order{Mode: 0o400}), "")
		if info, err := os.Stat(filepath.Join(base, "a/x/y/z")); err != nil || info.Mode() != 0o400 {
			t.Errorf("%v %v", info, err)
		}
		must(t, os.Symlink("nothing/x", filepath.Join(base, "dangling")))
		for path, want := range map[string]Code{"a": NotFile, "": NotFile, "a/": NotFile, "fifo": NotFile, "a/file/x": NotDirectory, "dangling": NotFound} {
			followedFault(t, path, write(path, Order{Mode: -1}), want)
		}
		followedFault(t, "no such user", write("owned", Order{Mode: -1, Owner: "no such"}), BadOwner)
		followedFault(t, "no such group", write("owned", Order{Mode: -1, Group: "-1"}), BadOwner)
		followedFault(t, "our own", write("owned", Order{Mode: -1, Owner: strconv.Itoa(os.Getuid()), Group: strconv.Itoa(os.Getgid())}), "")
		leftover(t, base)
	})
}

// TestFollowedWritesBesideEachOther: all that write one file succeed, and one of them has the last word, whole.
func TestFollowedWritesBesideEachOther(t *testing.T) {
	base := tree(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			content := strings.Repeat(string(rune('a'+i)), 1000*(i+1))
			for range 10 {
				followedFault(t, "one of many", put(t, Order{Path: base + "/same", Follow: true, Mode: -1}, framed(content)), "")
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(base + "/same")
	must(t, err)
	if letter := text[0]; len(text) != 1000*int(letter-'a'+1) || len(bytes.Trim(text, string(letter))) != 0 {
		t.Errorf("%d bytes of more than one", len(text))
	}
	leftover(t, base)
}

// leftover fails where a temporary file was left.
func leftover(t *testing.T, base string) {
	t.Helper()
	must(t, filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, ".sandboxd-") {
			t.Errorf("left: %s", path)
		}
		return err
	}))
}

func TestMake(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		must(t, os.Symlink("nothing", filepath.Join(base, "dangling")))
		must(t, os.Mkdir(filepath.Join(base, "there"), 0o750))
		for _, row := range []struct {
			path string
			mode int
			want Code
			then os.FileMode
		}{
			{"x/y/z", 0o777, "", 0o777}, {"x/y", 0o700, "", 0o755}, {"there", 0o700, "", 0o750}, {"plain/", -1, "", 0o755}, {"inner/new", 0o711, "", 0o711},
			{"inner", 0o700, "", 0o755}, {"a/file", 0o755, NotDirectory, 0o640}, {"a/file/below", 0o755, NotDirectory, 0}, {"dangling", 0o755, NotFound, 0},
			{"fifo", 0o755, NotDirectory, 0o600},
		} {
			followedFault(t, row.path, followed(t, Order{Operation: Make, Path: base + "/" + row.path, Mode: row.mode}), row.want)
			if info, err := os.Stat(filepath.Join(base, row.path)); row.then != 0 && (err != nil || info.Mode().Perm() != row.then) {
				t.Errorf("%s: %v %v, want %v", row.path, info, err, row.then)
			}
		}
		followedFault(t, "owner", followed(t, Order{Operation: Make, Path: base + "/owned", Mode: -1, Owner: "no such"}), BadOwner)
		if _, err := os.Stat(base + "/owned"); err == nil {
			t.Error("made for nobody")
		}
	})
}

// deepTree makes a chain of directories that is longer than a path may be, with a file in the last.
func deepTree(t *testing.T, at string, depth int) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o755))
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	file, err := unix.Openat(fd, "end", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	unix.Close(file)
	unix.Close(fd)
}

func TestRemove(t *testing.T) {
	base := tree(t)
	must(t, os.Symlink("../../../outside", filepath.Join(base, "a/b/out")))
	must(t, os.Symlink("../outside", filepath.Join(base, "a/out")))
	must(t, unix.Mkfifo(filepath.Join(base, "a/b/fifo"), 0o600))
	deepTree(t, filepath.Join(base, "a/deep"), 3000)
	for path, want := range map[string]Code{"missing": "", "missing/x": "", "empty": NotDirectory, "out": NotDirectory, "a/.": Forbidden} {
		followedFault(t, path, followed(t, Order{Operation: Remove, Path: base + "/" + path}), want)
	}
	followedFault(t, "the root of a mount", followed(t, Order{Operation: Remove, Path: "/proc"}), Forbidden)
	followedFault(t, "the root", followed(t, Order{Operation: Remove, Path: "/"}), Forbidden)
	followedFault(t, "a tree", followed(t, Order{Operation: Remove, Path: base + "/a"}), "")
	if _, err := os.Lstat(filepath.Join(base, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a: %v", err)
	}
	for _, kept := range []string{"out", "../outside/secret", "empty"} {
		if _, err := os.Lstat(filepath.Join(base, kept)); err != nil {
			t.Error(err)
		}
	}
	followedFault(t, "a file", followed(t, Order{Operation: Delete, Path: base + "/link"}), "")
	followedFault(t, "a directory", followed(t, Order{Operation: Delete, Path: base + "/out/../base"}), NotFile)
	if _, err := os.Lstat(filepath.Join(base, "../outside/secret")); err != nil {
		t.Error(err)
	}
}

// TestRemoveUnderAttack: another program puts links to what is outside in the place of directories that are being emptied. Nothing outside goes.
func TestRemoveUnderAttack(t *testing.T) {
	base := tree(t)
	secret := filepath.Join(base, "../outside/secret")
	stop := make(chan struct{})
	var attack sync.WaitGroup
	attack.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			dir := filepath.Join(base, "t", strconv.Itoa(i%7))
			_ = os.Rename(dir, dir+"-moved")
			_ = os.Symlink("../../outside", dir)
			_ = os.RemoveAll(dir + "-moved")
			_ = os.Remove(dir)
		}
	})
	for range 200 {
		for i := range 7 {
			_ = os.MkdirAll(filepath.Join(base, "t", strconv.Itoa(i), "x"), 0o755) // the attacker is against it
		}
		followed(t, Order{Operation: Remove, Path: base + "/t"})
	}
	close(stop)
	attack.Wait()
	if _, err := os.Stat(secret); err != nil {
		t.Fatal(err)
	}
	followedFault(t, "in the end", followed(t, Order{Operation: Remove, Path: base + "/t"}), "")
}

func TestMove(t *testing.T) {
	base := tree(t)
	other, err := os.MkdirTemp("/dev/shm", "move")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(other) })
	var here, there unix.Stat_t
	if unix.Stat(base, &here) != nil || unix.Stat(other, &there) != nil || here.Dev == there.Dev {
		t.Log("there is one file system here: nothing is moved across")
	}
	for _, to := range []string{base + "/to", other + "/to"} {
		for _, row := range []struct {
			from, to string
			want     Code
		}{
			{"a/file", "x/y/file", ""}, {"missing", "z", NotFound}, {"empty", "x/y/file", Exists}, {"empty", "x", Exists}, {"link", "link", ""}, {"a", "a", ""},
			{"empty", "x/y/file/below", NotDirectory}, {"empty", "", NotFile},
		} {
			target := to + "/" + row.to
			if row.to == "" {
				target, row.want = to, Exists
			}
			followedFault(t, row.from+" "+target, followed(t, Order{Operation: Move, Path: base + "/" + row.from, To: target}), row.want)
		}
		if text, err := os.ReadFile(to + "/x/y/file"); err != nil || string(text) != "0123456789" {
			t.Errorf("%q %v", text, err)
		}
		if info, err := os.Stat(to + "/x/y/file"); err != nil || info.Mode() != 0o640 {
			t.Errorf("%v %v", info, err)
		}
		if link, err := os.Readlink(to + "/link"); err != nil || link != "../outside/secret" {
			t.Errorf("%q %v", link, err)
		}
		if info, err := os.Stat(to + "/a/b"); err != nil || !info.IsDir() {
			t.Errorf("%v %v", info, err)
		}
		leftover(t, to)
		leftover(t, base)
		must(t, os.RemoveAll(base+"/to"))
		base = tree(t)
	}
	followedFault(t, "into itself", followed(t, Order{Operation: Move, Path: base + "/a", To: base + "/a/b/c"}), BadName)
	must(t, os.Mkdir(base+"/pipes", 0o755))
	must(t, unix.Mkfifo(base+"/pipes/p", 0o600))
	if here.Dev != there.Dev {
		followedFault(t, "a pipe across", followed(t, Order{Operation: Move, Path: base + "/pipes", To: other + "/pipes"}), NotFile)
		if _, err := os.Lstat(base + "/pipes/p"); err != nil {
			t.Error(err)
		}
		leftover(t, other)
	}
}

func TestOwn(t *testing.T) {
	base := tree(t)
	for _, row := range []struct {
		path, owner string
		mode        int
		want        Code
		then        os.FileMode
	}{
		{"a/file", "", 0o711, "", 0o711}, {"link", "", 0o604, "", 0o604}, {"a", "", 0o700, "", 0o700}, {"a/file", "no such", 0o600, BadOwner, 0o711},
		{"a/file", strconv.Itoa(os.Getuid()), -1, "", 0o711}, {"missing", "", 0o600, NotFound, 0}, {"a/file", "", 0, "", 0},
	} {
		followedFault(t, row.path, followed(t, Order{Operation: Own, Path: base + "/" + row.path, Mode: row.mode, Owner: row.owner}), row.want)
		if info, err := os.Stat(filepath.Join(base, row.path)); row.want != NotFound && (err != nil || info.Mode().Perm() != row.then) {
			t.Errorf("%+v: %v %v", row, info, err)
		}
	}
}

// TestOwnOfAnother: who isn't root gives nothing away.
func TestOwnOfAnother(t *testing.T) {
	asNobody(t)
	base := tree(t)
	followedFault(t, "to root", followed(t, Order{Operation: Own, Path: base + "/a/file", Mode: -1, Owner: "root"}), Forbidden)
	followedFault(t, "root's", followed(t, Order{Operation: Own, Path: "/etc/passwd", Mode: 0o666}), Forbidden)
}

func names(entries []Found) []string {
	list := []string{}
	for _, e := range entries {
		if list = append(list, e.Name); e.Name == "" {
			list[len(list)-1] = string(e.NameBase64)
		}
	}
	return list
}

func TestTree(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		must(t, os.WriteFile(filepath.Join(base, "a/b/c\xff"), nil, 0o600))
		must(t, os.WriteFile(filepath.Join(base, ".hidden"), nil, 0o600))
		for depth, want := range map[int][]string{
			0: {},
			1: {".hidden", "a", "empty", "fifo", "inner", "link", "magic", "out", "socket"},
			2: {".hidden", "a", "empty", "fifo", "inner", "link", "magic", "out", "socket", "a/b", "a/file"},
			9: {".hidden", "a", "empty", "fifo", "inner", "link", "magic", "out", "socket", "a/b", "a/file", "a/b/c\xff"},
		} {
			r := followed(t, Order{Operation: Tree, Path: base, Depth: depth})
			if got := names(r.Found); r.Fault != nil || r.Truncated || !slices.Equal(got, want) {
				t.Errorf("%d: %q, want %q (%v)", depth, got, want, r.Fault)
			}
		}
		for path, want := range map[string]Code{"empty": NotDirectory, "inner": NotDirectory, "missing": NotFound, "inner/b": ""} {
			followedFault(t, path, followed(t, Order{Operation: Tree, Path: base + "/" + path, Depth: 1}), want)
		}
		if r := followed(t, Order{Operation: Tree, Path: base, Depth: 1, Limit: answerBytes + 300}); !r.Truncated || len(r.Found) == 0 || len(r.Found) > 3 {
			t.Errorf("%d entries, truncated %v", len(r.Found), r.Truncated)
		}
		deepTree(t, filepath.Join(base, "deep"), 200)
		for pattern, want := range map[string][]string{
			"f*": {"a/file"}, "[e]n*": {"deep/" + strings.Repeat("d/", 200) + "end"}, "*.none": {}, "?????": {"empty"}, "a": {}, "link": {},
		} {
			r := followed(t, Order{Operation: Search, Path: base, Pattern: pattern})
			if got := names(r.Found); r.Fault != nil || r.Truncated || !slices.Equal(got, want) {
				t.Errorf("%s: %q (%v)", pattern, got, r.Fault)
			}
		}
		for _, pattern := range []string{"", "[", "a/b", `\`} {
			followedFault(t, pattern, followed(t, Order{Operation: Search, Path: base, Pattern: pattern}), BadPattern)
		}
	})
}

// replaceIn replaces in a file.
func replaceIn(t *testing.T, path, old, with string) Result {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	go func() {
		_, _ = write.Write(framed(old + with))
		write.Close()
	}()
	return Do(Order{Operation: Replace, Path: path, Follow: true, Mode: -1, Limit: 1 << 20, OldBytes: int64(len(old))}, read)
}

func TestReplace(t *testing.T) {
	base := tree(t)
	path := filepath.Join(base, "text")
	for i := range 30 { // few letters, so that beginnings of the text lie across the pieces that are read
		content := make([]byte, rand.IntN(3*pieceBytes))
		for at := range content {
			content[at] = "ab"[rand.IntN(2)]
		}
		old := content[:min(len(content), 1+i%9)]
		if i%5 == 0 || len(old) == 0 {
			old = []byte("c")
		}
		with := strings.Repeat("b", rand.IntN(5))
		must(t, os.WriteFile(path, content, 0o604))
		r := replaceIn(t, path, string(old), with)
		got, err := os.ReadFile(path)
		if want := bytes.ReplaceAll(content, old, []byte(with)); err != nil || r.Fault != nil || r.Replaced != int64(bytes.Count(content, old)) || !bytes.Equal(got, want) {
			t.Fatalf("%q by %q in %d bytes: %d times, %d bytes, want %d and %d (%v %v)", old, with, len(content), r.Replaced, len(got), bytes.Count(content, old), len(want), err, r.Fault)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o604 {
			t.Fatalf("%v %v", info, err)
		}
	}
	for path, want := range map[string]Code{"missing": NotFound, "a": NotFile, "fifo": NotFile} {
		followedFault(t, path, replaceIn(t, base+"/"+path, "a", "b"), want)
	}
	followedFault(t, "no text", replaceIn(t, base+"/empty", "", "b"), Incomplete)
	followedFault(t, "behind a link", replaceIn(t, base+"/link", "secret", "told"), "")
	if text, err := os.ReadFile(base + "/../outside/secret"); err != nil || string(text) != "told" {
		t.Errorf("%q %v", text, err)
	}
	leftover(t, base)
}

func TestLines(t *testing.T) {
	base := tree(t)
	long := strings.Repeat("x", pieceBytes) + "\n"
	for _, content := range []string{"", "a\nb\nc\nd\n", "a\nb", "\n\n\n", long + "b\n" + long, "a\r\nb\r\n"} {
		must(t, os.WriteFile(base+"/lines", []byte(content), 0o600))
		lines := strings.SplitAfter(content, "\n")
		for first := range int64(6) {
			for count := int64(-1); count < 6; count++ {
				from := min(max(first, 1)-1, int64(len(lines)))
				to := int64(len(lines))
				if count >= 0 {
					to = min(from+count, to)
				}
				want := strings.Join(lines[from:to], "")
				g := get(t, Order{Operation: Read, Path: base + "/lines", Follow: true, Lines: Lines{true, first, count}})
				if g.Fault != nil || g.content != want || g.header.Part {
					t.Errorf("%d lines from %d of %.20q: %.20q, want %.20q (%v)", count, first, content, g.content, want, g.Fault)
				}
			}
		}
	}
}

func TestOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "names")
	must(t, os.WriteFile(path, []byte("root:x:0:0\nzero:x:0:\n\nbroken:x\n:x:5\nfar:x:99999999999\nminus:x:-1\nlast:x:7"), 0o600))
	if got, want := readOwners(path), map[int]string{0: "root", 7: "last"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := readOwners("/dev/zero"); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
