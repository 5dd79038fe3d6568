package landlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const moverName = "mover"

// mover restricts itself as an exec is, with a layer for signals around it (handling what the argument says of files) and then its own, and moves things.
func mover(dir, outer string) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	enter := func(r Ruleset) {
		fd, err := r.Create()
		if err == nil {
			err = RestrictSelf(fd)
		}
		if err != nil {
			panic(err)
		}
	}
	around := Ruleset{ABI: 6, Scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	switch outer {
	case "granting":
		around.HandledFS, around.Paths = unix.LANDLOCK_ACCESS_FS_REFER, []PathRule{{"/", unix.LANDLOCK_ACCESS_FS_REFER}}
		fallthrough
	case "silent":
		enter(around)
	}
	write := PathRule{dir + "/more", Write}
	less := PathRule{dir + "/less", Write &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE)}
	enter(For(ABI(), []PathRule{{dir + "/read", Read}, write, less}, nil))
	for _, move := range [][2]string{
		{"more/a/x", "more/b/x"}, {"more/b/x", "less/x"}, {"less/x", "more/a/x"}, {"read/x", "more/a/y"}, {"read/x", "read/d/x"}, {"more/c", "read/c"},
	} {
		from, to := dir+"/"+move[0], dir+"/"+move[1]
		fmt.Printf("link %s %s: %v\n", move[0], move[1], unix.Link(from, to+".link"))
		fmt.Printf("move %s %s: %v\n", move[0], move[1], unix.Rename(from, to))
	}
	os.Exit(0)
}

// TestRefer holds what workers and plans rest on: what may be written may be moved about there, and nothing gains a right by being moved or linked; a layer
// around that says nothing of files takes all of it away, and one that grants moves gives no more than there is.
func TestRefer(t *testing.T) {
	if ABI() < 6 {
		t.Skip("landlock.scope: Linux 6.12")
	}
	denied, across := unix.EACCES.Error(), unix.EXDEV.Error()
	inner := map[string]string{
		"more/a/x more/b/x": "<nil>",
		"more/b/x less/x":   "<nil>", // fewer rights there
		"less/x more/a/x":   across,  // it would be executable, and could be cut short
		"read/x more/a/y":   denied,  // it would become writable; where it is nothing may be removed
		"read/x read/d/x":   denied,
		"more/c read/c":     denied,
	}
	for outer, want := range map[string]map[string]string{"none": inner, "granting": inner, "silent": {"more/a/x more/b/x": across}} {
		t.Run(outer, func(t *testing.T) {
			dir := t.TempDir()
			for _, path := range []string{"/more/a", "/more/b", "/less", "/read/d"} {
				if err := os.MkdirAll(dir+path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range []string{"/more/a/x", "/more/c", "/read/x"} {
				if err := os.WriteFile(dir+path, []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command("/proc/self/exe", dir, outer)
			command.Args[0] = moverName
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			answers := map[string]string{}
			for line := range strings.Lines(string(out)) {
				what, answer, _ := strings.Cut(strings.TrimSpace(line), ": ")
				answers[what] = answer
			}
			for what, answer := range want {
				for _, how := range []string{"link ", "move "} {
					got := answers[how+what]
					// A link to where nothing may be made is refused by that; the kernel names whichever it comes to first.
					if answer == denied && got == across {
						continue
					}
					if got != answer {
						t.Errorf("%s%s: %q, want %q", how, what, got, answer)
					}
				}
			}
			if _, err := os.Stat(dir + "/read/x"); err != nil || errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}
