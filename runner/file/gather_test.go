package file

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gathered is a gather's answer, with what was sent.
func gathered(t *testing.T, o Order, meanwhile func()) (Result, []string) {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	answer := make(chan Result)
	go func() {
		o.Operation = Gather
		r := Do(o, write)
		write.Close()
		answer <- r
	}()
	var contents []string
	for {
		header, err := ReadHeader(read)
		if err != nil {
			break
		}
		if meanwhile != nil {
			meanwhile()
			meanwhile = nil
		}
		content, _ := io.ReadAll(io.LimitReader(read, header.Length))
		contents = append(contents, string(content))
	}
	return <-answer, contents
}

func told(r Result) string {
	var names []string
	for _, e := range r.Entries {
		names = append(names, fmt.Sprintf("%s%q %d", e.Name, e.NameBase64, e.Size))
	}
	return strings.Join(names, ", ")
}

func TestGather(t *testing.T) {
	eitherWay(t, func(t *testing.T) {
		base := tree(t)
		must(t, os.WriteFile(filepath.Join(base, "a/b/\xff"), []byte("?"), 0o600))
		want := fmt.Sprintf(`%q 1, a/file"" 10, empty"" 0`, "a/b/\xff")
		r, contents := gathered(t, Order{Base: base}, nil)
		if told(r) != want || r.Truncated || r.Fault != nil || contents != nil || r.Sent != nil {
			t.Errorf("%s %+v %q, want %s", told(r), r, contents, want)
		}
		r, contents = gathered(t, Order{Base: base, Limit: 9}, nil)
		if fmt.Sprint(r.Sent, contents) != "[0 2] [? ]" {
			t.Errorf("what fits: %v %q", r.Sent, contents)
		}
		r, contents = gathered(t, Order{Base: base, Path: "a", Limit: 1 << 20}, nil)
		if told(r) != fmt.Sprintf(`%q 1, file"" 10`, "b/\xff") || fmt.Sprint(r.Sent, contents) != "[0 1] [? 0123456789]" {
			t.Errorf("%s %v %q", told(r), r.Sent, contents)
		}
		for path, code := range map[string]Code{"out": Link, "magic": Link, "inner": Link, "nowhere": NotFound, "a/file": NotDirectory, "..": Outside} {
			r, contents := gathered(t, Order{Base: base, Path: path, Limit: 1 << 20}, nil)
			wantFault(t, path, r, code, "")
			if contents != nil || r.Entries != nil {
				t.Errorf("%s: %+v %q", path, r, contents)
			}
		}
	})
}

// Nothing of another's with a second name in there is read, and none of a mount beneath.
func TestGatherLeavesOthersAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs two users")
	}
	base := tree(t)
	foreign := filepath.Join(base, "../outside/foreign")
	must(t, os.WriteFile(foreign, []byte("theirs"), 0o644))
	must(t, os.Chown(foreign, 4242, 4242))
	must(t, os.Link(foreign, filepath.Join(base, "a/second")))
	r, contents := gathered(t, Order{Base: base, Path: "a", Limit: 1 << 20}, nil)
	if told(r) != `file"" 10, second"" 6` || fmt.Sprint(r.Sent) != "[0]" || len(contents) != 1 {
		t.Errorf("%s %v %q", told(r), r.Sent, contents)
	}
}

// A file that becomes shorter while it is sent is the last: whoever reads can't tell what follows.
func TestGatherOfWhatShrinks(t *testing.T) {
	base := tree(t)
	big := filepath.Join(base, "a/big")
	must(t, os.WriteFile(big, make([]byte, 4<<20), 0o600))
	r, contents := gathered(t, Order{Base: base, Path: "a", Limit: 8 << 20}, func() { must(t, os.Truncate(big, 1)) })
	if told(r) != `big"" 4194304, file"" 10` || r.Sent != nil || len(contents) != 1 || len(contents[0]) >= 4<<20 {
		t.Errorf("%s %v, %d contents", told(r), r.Sent, len(contents))
	}
}

// A directory that changes places with a link that leads out, and a file with one, as fast as it can: nothing outside is told or read.
func TestGatherRaces(t *testing.T) {
	base := tree(t)
	at := func(name string) string { return filepath.Join(base, name) }
	must(t, os.MkdirAll(at("in/swap"), 0o755))
	must(t, os.WriteFile(at("in/swap/public"), []byte("public"), 0o600))
	must(t, os.WriteFile(at("in/name"), []byte("public"), 0o600))
	must(t, os.Symlink(at("../outside/secret"), at("other")))
	must(t, os.Symlink(at("../outside"), at("leads")))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, at("in/swap"), unix.AT_FDCWD, at("leads"), unix.RENAME_EXCHANGE)
			_ = unix.Renameat2(unix.AT_FDCWD, at("in/name"), unix.AT_FDCWD, at("other"), unix.RENAME_EXCHANGE)
		}
	}()
	seen := map[string]int{}
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		r, contents := gathered(t, Order{Base: base, Path: "in", Limit: 1 << 20}, nil)
		seen[told(r)]++
		if strings.Contains(fmt.Sprint(told(r), contents), "secret") || r.Fault != nil {
			t.Fatalf("%s %q %v", told(r), contents, r.Fault)
		}
	}
	close(stop)
	<-stopped
	if len(seen) < 2 {
		t.Errorf("%v: both sides must have won at times", seen)
	}
}
