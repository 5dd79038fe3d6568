package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// step is one part of a field path: a member's name, or the index of an element.
type step struct {
	name    string
	index   int
	indexed bool
}

// parsePath reads paths as package policy writes them: limits.pids, network.egress[0].ports, command.env["BASH_FUNC_ls%%"].
func parsePath(path string) ([]step, error) {
	var steps []step
	for rest := path; rest != ""; {
		var next step
		var err error
		if next, rest, err = parseStep(rest, len(steps) == 0); err != nil {
			return nil, fmt.Errorf("field %q: %w", path, err)
		}
		steps = append(steps, next)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("field %q: empty", path)
	}
	return steps, nil
}

func parseStep(rest string, first bool) (step, string, error) {
	if strings.HasPrefix(rest, `["`) {
		quoted, err := strconv.QuotedPrefix(rest[1:])
		if err != nil {
			return step{}, "", err
		}
		name, err := strconv.Unquote(quoted)
		if err != nil {
			return step{}, "", err
		}
		after, closed := strings.CutPrefix(rest[1+len(quoted):], "]")
		if !closed {
			return step{}, "", fmt.Errorf("want ] after %s", quoted)
		}
		return step{name: name}, after, nil
	}
	if inside, isIndex := strings.CutPrefix(rest, "["); isIndex {
		digits, after, closed := strings.Cut(inside, "]")
		index, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || !closed {
			return step{}, "", fmt.Errorf("want an index at %q", rest)
		}
		return step{index: int(index), indexed: true}, after, nil
	}
	if !first {
		after, dotted := strings.CutPrefix(rest, ".")
		if !dotted {
			return step{}, "", fmt.Errorf("want a dot at %q", rest)
		}
		rest = after
	}
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		return step{}, "", fmt.Errorf("want a name at %q", rest)
	}
	return step{name: rest[:end]}, rest[end:], nil
}
