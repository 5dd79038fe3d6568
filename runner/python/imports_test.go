package python

import (
	"strings"
	"testing"
)

func TestCheckImports(t *testing.T) {
	for _, row := range []struct {
		names string // one a word
		ok    bool
	}{
		{"", true},
		{"json", true},
		{"json xml.etree _private a1 A.b_2.C", true},
		{strings.Repeat("a", 128), true},
		{strings.Repeat("a", 129), false},
		{"json json", false},
		{"1a", false},
		{"a.1b", false},
		{".a", false},
		{"a.", false},
		{"a..b", false},
		{"a-b", false},
		{"a;b", false},
		{"a\x00", false},
		{"naïve", false},
	} {
		if err := CheckImports(strings.Fields(row.names)); (err == nil) != row.ok {
			t.Errorf("%q: %v", row.names, err)
		}
	}
	if CheckImports([]string{""}) == nil || CheckImports([]string{"a b"}) == nil || CheckImports([]string{"a\n"}) == nil {
		t.Error("an empty name, or one with white space, is taken")
	}
}
