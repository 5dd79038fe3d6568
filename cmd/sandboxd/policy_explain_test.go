package main

import (
	"encoding/json/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What explain prints is true and smallest, as a person who follows it finds out: the printed edits are made by this test's own hand, and judged by
// policy eval. With all of them the request passes, and without any one it is denied.
func TestPrintedChangesPass(t *testing.T) {
	for name, row := range map[string]struct {
		body  string
		edits int
	}{
		"one":                     {`{"action":"exec","command":{"argv":["id"]},"limits":{"pids":9999}}`, 1},
		"a name that isn't plain": {`{"action":"exec","command":{"argv":["id"],"env":{"BASH_FUNC_ls%%":"x","LD_A.B\"]":"x","HOME":"/"}}}`, 2},
		"everything": {`{"action":"exec","command":{"argv":["id"],"cwd":"/proc/1","env":{"IFS":" "}},"network":{"defaultAction":"allow","egress":[{"action":"allow","target":"example.com"},{"action":"deny","target":"10.0.0.0/8"}]},
			"securityContext":{"privileged":true,"allowPrivilegeEscalation":true,"runAsUser":0,"runAsNonRoot":false,"capabilities":{"add":["SYS_ADMIN"],"drop":["CHOWN"]},"supplementalGroups":[0,7]},"limits":{"timeoutSeconds":7200,"cpu":100}}`, 0},
		"run": {`{"action":"run","code":"pass","inputs":{"n":[1,2]},"env":{"PYTHONHOME":"x"},"cwd":"/sys","timeoutSeconds":7200,"limits":{"openFiles":100000}}`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			printed, status := runPolicy(t, "explain", row.body)
			_, after, found := strings.Cut(printed, "none of them can be left out:\n")
			if status != 1 || !found {
				t.Fatalf("status %d:\n%s", status, printed)
			}
			var edits []string
			for line := range strings.Lines(after) {
				if !strings.HasPrefix(line, "   ") {
					break
				}
				edits = append(edits, strings.TrimSpace(line))
			}
			if len(edits) == 0 || row.edits > 0 && len(edits) != row.edits {
				t.Fatalf("%d edits:\n%s", len(edits), printed)
			}
			if out, status := runPolicy(t, "eval", edited(t, row.body, edits)); status != 0 {
				t.Errorf("%q doesn't pass: %s", edits, out)
			}
			for i := range edits {
				fewer := edited(t, row.body, slices.Delete(slices.Clone(edits), i, i+1))
				if out, status := runPolicy(t, "eval", fewer); status != 1 {
					t.Errorf("without %q: status %d, want 1: %s", edits[i], status, out)
				}
			}
		})
	}
}

func runPolicy(t *testing.T, word, body string) (string, int) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := program{stdin: os.Stdin, stdout: out, stderr: out, getenv: func(string) string { return "" }}
	status := p.run([]string{"policy", word, "--request", body})
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), status
}

// edited follows instructions as they are printed.
func edited(t *testing.T, body string, edits []string) string {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		path, isRemove := strings.CutPrefix(edit, "remove ")
		var value any
		if !isRemove {
			var to string
			path, to, _ = strings.Cut(strings.TrimPrefix(edit, "set "), " to ")
			if err := json.Unmarshal([]byte(to), &value); err != nil {
				t.Fatalf("%s: %v", edit, err)
			}
		}
		node, names := tree, pathNames(t, path)
		for _, name := range names[:len(names)-1] {
			if node[name] == nil {
				node[name] = map[string]any{}
			}
			node = node[name].(map[string]any)
		}
		if last := names[len(names)-1]; isRemove {
			delete(node, last)
		} else {
			node[last] = value
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var pathName = regexp.MustCompile(`^\.?([A-Za-z0-9_]+)|^\[("(?:[^"\\]|\\.)*")\]`)

func pathNames(t *testing.T, path string) []string {
	var names []string
	for path != "" {
		match := pathName.FindStringSubmatch(path)
		if match == nil {
			t.Fatalf("path %q", path)
		}
		name := match[1]
		if match[2] != "" {
			var err error
			if name, err = strconv.Unquote(match[2]); err != nil {
				t.Fatal(err)
			}
		}
		names, path = append(names, name), path[len(match[0]):]
	}
	return names
}
