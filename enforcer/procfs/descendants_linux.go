package procfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Descendants are the children of a process, theirs, and so on: who is there while it reads (/proc/PID/task/TID/children). One who comes meanwhile may be
// missing, and one who ends too. A process that has ended has none.
func Descendants(pid int) ([]int, error) {
	var found []int
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		children, err := childrenOf(queue[0])
		if err != nil {
			return nil, err
		}
		for _, child := range children {
			if !seen[child] {
				seen[child] = true
				found = append(found, child)
				queue = append(queue, child)
			}
		}
	}
	return found, nil
}

// childrenOf are the children of a process, none if it has ended.
func childrenOf(pid int) ([]int, error) {
	process, err := Open(pid)
	if Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer process.Close()
	children, err := process.Children()
	if Gone(err) {
		return nil, nil
	}
	return children, err
}

// Children are those of all threads, each of which has a list of its own. Those of a thread that ends meanwhile are given to another, and may be missing.
func (p *Process) Children() ([]int, error) {
	var all []int
	err := p.each("task", func(dir int, tid int) error {
		fd, err := open(dir, strconv.Itoa(tid)+"/children", unix.O_RDONLY)
		if errors.Is(err, unix.ENOENT) {
			return nil // the thread has ended; or this is a kernel without such lists
		}
		if err != nil {
			return err
		}
		data, err := readAll(fd, p.buf)
		if Gone(err) || err == nil && len(data) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		children, err := parseChildren(string(data))
		all = append(all, children...)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, fmt.Errorf("children of %d: %w", p.pid, err)
	}
	return all, nil
}

func parseChildren(text string) ([]int, error) {
	var children []int
	for _, word := range strings.Fields(text) {
		pid, err := strconv.ParseUint(word, 10, 31)
		if err != nil || pid == 0 {
			return nil, fmt.Errorf("children: %.20q: not a pid", word)
		}
		children = append(children, int(pid))
	}
	return children, nil
}
