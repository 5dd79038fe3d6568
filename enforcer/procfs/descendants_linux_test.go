package procfs

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseChildren(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "7 ": {7}, "7 4194304 ": {7, 4194304}} {
		if got, err := parseChildren(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"0", "-1", "+7", "7 x", "7.0", "2147483648", "99999999999999999999", "7\x00"} {
		if got, err := parseChildren(bad); err == nil {
			t.Errorf("%q is understood: %v", bad, got)
		}
	}
}

// FuzzChildren: what is understood is numbers of processes and nothing else, each of them, in order.
func FuzzChildren(f *testing.F) {
	for _, seed := range []string{"", "1 ", "7 4194304 ", "0", "-1", "2147483647 2147483648", "1\n2\t3", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		children, err := parseChildren(text)
		if err != nil {
			return
		}
		words := strings.Fields(text)
		if len(words) != len(children) {
			t.Fatalf("%q: %v", text, children)
		}
		for i, pid := range children {
			if pid <= 0 || strings.TrimLeft(words[i], "0") != strconv.Itoa(pid) {
				t.Errorf("%q: %v", text, children)
			}
		}
	})
}
