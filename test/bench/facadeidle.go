package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idleRows: many sandboxes that have run a command each and do nothing: what each takes that no other process shares, and what the machine has less of.
func idleRows(b *bench, quick bool) error {
	count := 200
	if quick {
		count = 20
	}
	f, err := b.facade("idle", "--max-sandboxes", "208", "--pool", "2")
	if err != nil {
		return err
	}
	defer f.stop()
	const settled = 3 * time.Second // the daemon gives back what only the starts have used
	before, err := f.memory()
	if err != nil {
		return err
	}
	var boxes []*remote
	for range count {
		box, err := f.create()
		if err == nil {
			err = box.nothing()
		}
		if err != nil {
			return err
		}
		boxes = append(boxes, box)
	}
	time.Sleep(settled)
	after, err := f.memory()
	if err != nil {
		return err
	}
	each := func(after, before int64) float64 { return float64(after-before) / float64(count) }
	all := each(after.private+after.own, before.private+before.own)
	b.add(fmt.Sprintf("OpenSandbox: %d idle sandboxes that have run a command, each: memory of launcher and worker that nobody shares, and the daemon's growth", count), "≤ 8 MiB",
		fmt.Sprintf("%.2f MiB, of which the daemon %.2f MiB", all/(1<<20), each(after.own, before.own)/(1<<20)), met(all, 8<<20))
	b.add("OpenSandbox: the same by what the machine has less of (MemAvailable), kernel and shared pages included", "–",
		fmt.Sprintf("%.2f MiB", each(before.available, after.available)/(1<<20)), "–")
	begin := time.Now()
	for _, box := range boxes {
		if err := box.delete(); err != nil {
			return err
		}
	}
	b.add(fmt.Sprintf("OpenSandbox: %d sandboxes deleted one after the other, each", count), "–", short(time.Since(begin)/time.Duration(count)), "–")
	return nil
}

// use is what a daemon and its sandboxes have of the machine's memory, in bytes.
type use struct {
	// own is what the daemon has allocated, private what its launchers and their workers have that nobody else has mapped.
	own, private int64
	available    int64
}

func (f *facade) memory() (use, error) {
	var u use
	own, err := statusNumber(f.proc, "RssAnon:")
	if err != nil {
		return u, err
	}
	u.own = own << 10
	for _, dir := range descendants(filepath.Base(f.proc)) {
		private, err := smapsPrivate(dir)
		if err != nil {
			return u, err
		}
		u.private += private
	}
	u.available, err = keyed("/proc/meminfo", "MemAvailable:")
	return u, err
}

// descendants are the processes below one.
func descendants(pid string) []string {
	children := map[string][]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range entries {
		if parent, err := statusNumber(dir, "PPid:"); err == nil { // else it has ended meanwhile
			above := strconv.FormatInt(parent, 10)
			children[above] = append(children[above], filepath.Base(dir))
		}
	}
	var all []string
	for next := []string{pid}; len(next) > 0; {
		below := children[next[0]]
		next = append(next[1:], below...)
		for _, one := range below {
			all = append(all, "/proc/"+one)
		}
	}
	return all
}

// smapsPrivate is what a process has mapped that no other has, in bytes (proc_pid_smaps(5)).
func smapsPrivate(dir string) (int64, error) {
	clean, err := keyed(dir+"/smaps_rollup", "Private_Clean:")
	if err != nil {
		return 0, err
	}
	dirty, err := keyed(dir+"/smaps_rollup", "Private_Dirty:")
	return clean + dirty, err
}

// keyed is a number of kilobytes behind its name, in bytes.
func keyed(path, name string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == name {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no %s", path, name)
}
