package procfs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// ParseNamespace parses the text of a link in /proc/PID/ns, "mnt:[4026531841]": the inode number that names the namespace (namespaces(7)).
// The text must be of the kind that was asked for; time_for_children and pid_for_children have texts of kind "time" and "pid".
func ParseNamespace(kind, text string) (uint64, error) {
	inner, ok := strings.CutPrefix(text, kind+":[")
	if ok {
		inner, ok = strings.CutSuffix(inner, "]")
	}
	if !ok {
		return 0, fmt.Errorf("namespace link %q is not of kind %s", text, kind)
	}
	inode, err := strconv.ParseUint(inner, 10, 64)
	if err != nil || inode == 0 {
		return 0, fmt.Errorf("namespace link %q has no inode number", text)
	}
	return inode, nil
}

// ParseCgroup parses /proc/PID/cgroup and gives the path in the version 2 hierarchy, the line "0::PATH" (cgroups(7)); rows of version 1 are
// passed over. No such line is an error: that host has no version 2 hierarchy. " (deleted)" at the end means that the group was removed.
func ParseCgroup(data []byte) (string, error) {
	path, found := "", false
	for line := range bytes.Lines(data) {
		line, ended := bytes.CutSuffix(line, []byte{'\n'})
		id, rest, ok := bytes.Cut(line, []byte{':'})
		var n int
		if !ok || !ended || number(id, 10, &n) != nil {
			return "", fmt.Errorf("cgroup: line %q", line)
		}
		controllers, where, ok := bytes.Cut(rest, []byte{':'})
		if !ok || len(where) == 0 || where[0] != '/' {
			return "", fmt.Errorf("cgroup: line %q", line)
		}
		if n != 0 {
			continue
		}
		if found || len(controllers) != 0 {
			return "", fmt.Errorf("cgroup: line %q", line)
		}
		path, found = string(where), true
	}
	if !found {
		return "", fmt.Errorf("cgroup: no line of version 2 (0::)")
	}
	return path, nil
}

// ParseIDMap parses /proc/PID/uid_map or gid_map into rows of {inside, outside, count} (user_namespaces(7)).
func ParseIDMap(data []byte) ([][3]uint32, error) {
	var rows [][3]uint32
	for line := range bytes.Lines(data) {
		var row [3]uint32
		fields := bytes.Fields(line)
		if len(fields) != len(row) {
			return nil, fmt.Errorf("id map: line %q", line)
		}
		for i, field := range fields {
			n, err := strconv.ParseUint(string(field), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("id map: %w", err)
			}
			row[i] = uint32(n)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
