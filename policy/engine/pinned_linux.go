package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pinned are warnings of what will never change although its source does. Kubernetes mounts a subPath of a ConfigMap once, from the generation that there is
// then; an update makes another generation beside it. The same is so of every file that is mounted by itself.
func pinned(dir string) []string {
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return []string{fmt.Sprintf("%s: whether it can be updated isn't known: %v", dir, err)}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil // reading it says so
	}
	return pinnedMounts(string(data), real)
}

// pinnedMounts judges the text of mountinfo (proc_pid_mountinfo(5)).
func pinnedMounts(mountinfo, dir string) []string {
	var warnings []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		inside := strings.HasPrefix(point, dir+"/")
		switch {
		case point != dir && !inside:
		case strings.HasSuffix(root, "//deleted"):
			warnings = append(warnings, point+" is a mount of something that has been deleted: it will never be updated; mount it again")
		case hasGeneration(root):
			warnings = append(warnings, point+" is a subPath of a ConfigMap, which Kubernetes never updates: mount the whole volume")
		case inside && !isDir(point):
			warnings = append(warnings, point+" is a file that is mounted by itself: one that takes its place won't be seen here; mount its directory")
		}
	}
	return warnings
}

// hasGeneration says whether a path goes through what the kubelet calls a generation of a volume: ..2026_12_01_06_52_28.1234567890.
func hasGeneration(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "..2") && strings.Count(part, "_") >= 5 {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// unescape reads space, tab, newline and backslash, which the kernel writes as \ and three octal digits.
func unescape(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
