package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// childrenOf reads the list of each thread.
func childrenOf(pid int) ([]int, error) {
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/[0-9]*/children")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended: its children are another's
		}
		children, err := parseChildren(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		all = append(all, children...)
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
