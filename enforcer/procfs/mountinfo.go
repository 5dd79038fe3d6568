package procfs

import (
	"bytes"
	"fmt"
	"strings"
)

// Mount is a row of /proc/PID/mountinfo.
type Mount struct {
	ID      int      `json:"id"`
	Parent  int      `json:"parent"`
	Dev     string   `json:"dev"`
	Root    string   `json:"root"`
	Target  string   `json:"target"`
	Options []string `json:"options"`
	// Propagation has "shared:N", "master:N", …; empty: private.
	Propagation  []string `json:"propagation,omitempty"`
	Type         string   `json:"type"`
	Source       string   `json:"source"`
	SuperOptions []string `json:"superOptions"`
}

// ParseMounts parses /proc/PID/mountinfo (proc_pid_mountinfo(5)), in the kernel's order.
func ParseMounts(data []byte) ([]Mount, error) {
	var mounts []Mount
	for line := range bytes.Lines(data) {
		line, ended := bytes.CutSuffix(line, []byte{'\n'})
		if !ended {
			return nil, fmt.Errorf("mountinfo: line %q", line)
		}
		mount, err := parseMount(string(line))
		if err != nil {
			return nil, fmt.Errorf("mountinfo: line %q: %w", line, err)
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// parseMount splits one row. Between the sixth field and " - " stand any number of optional fields; the kernel escapes blanks in every name, so a
// lone dash can't be one. A source may be empty (two blanks in a row), which is why fields are split at each blank.
func parseMount(line string) (Mount, error) {
	fields := strings.Split(line, " ")
	if len(fields) < 10 {
		return Mount{}, fmt.Errorf("%d fields", len(fields))
	}
	dash := -1
	for i := 6; i < len(fields); i++ {
		if fields[i] == "-" {
			dash = i
			break
		}
	}
	if dash < 0 || len(fields) != dash+4 {
		return Mount{}, fmt.Errorf("separator or fields after it missing")
	}
	mount := Mount{
		Dev:          fields[2],
		Options:      strings.Split(fields[5], ","),
		SuperOptions: strings.Split(fields[dash+3], ","),
	}
	if err := number([]byte(fields[0]), 10, &mount.ID); err != nil {
		return Mount{}, err
	}
	if err := number([]byte(fields[1]), 10, &mount.Parent); err != nil {
		return Mount{}, err
	}
	if !deviceNumber(mount.Dev) {
		return Mount{}, fmt.Errorf("device %q", mount.Dev)
	}
	if dash > 6 {
		mount.Propagation = fields[6:dash:dash]
	}
	for _, name := range []struct {
		from string
		into *string
	}{{fields[3], &mount.Root}, {fields[4], &mount.Target}, {fields[dash+1], &mount.Type}, {fields[dash+2], &mount.Source}} {
		text, err := unescape(name.from)
		if err != nil {
			return Mount{}, err
		}
		*name.into = text
	}
	if !strings.HasPrefix(mount.Target, "/") {
		return Mount{}, fmt.Errorf("target %q", mount.Target)
	}
	return mount, nil
}

// deviceNumber says whether the text is "major:minor" in decimal.
func deviceNumber(text string) bool {
	major, minor, ok := strings.Cut(text, ":")
	var n int
	return ok && number([]byte(major), 10, &n) == nil && number([]byte(minor), 10, &n) == nil
}

// unescape resolves the kernel's octal escapes (blank, tab, newline, backslash, and '#' in a source). A backslash that starts none is an error.
func unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		if i+3 >= len(text) {
			return "", fmt.Errorf("escape at the end of %q", text)
		}
		value := 0
		for _, digit := range []byte(text[i+1 : i+4]) {
			if digit < '0' || digit > '7' {
				return "", fmt.Errorf("escape in %q", text)
			}
			value = value<<3 | int(digit-'0')
		}
		if value > 255 {
			return "", fmt.Errorf("escape in %q", text)
		}
		out = append(out, byte(value))
		i += 3
	}
	return string(out), nil
}
