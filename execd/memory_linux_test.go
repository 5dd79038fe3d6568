package execd

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// A mapping of the program's file is forgotten if it can't be written and nothing of it is ours alone.
func TestOwnSegments(t *testing.T) {
	const exe = "/usr/bin/sandboxd"
	mapping := func(at, mode, file, anonymous string) string {
		return fmt.Sprintf("%s %s 00000000 fe:00 1234   %s\nSize: 4 kB\nRss: 4 kB\nAnonymous:      %s kB\nVmFlags: rd ex mr mw me\n", at, mode, file, anonymous)
	}
	for name, row := range map[string]struct {
		text string
		want []segment
	}{
		"text and data": {mapping("400000-500000", "r-xp", exe, "0") + mapping("500000-600000", "r--p", exe, "0") + mapping("600000-700000", "rw-p", exe, "8"), []segment{{0x400000, 0x500000}, {0x500000, 0x600000}}},
		"clean data":    {mapping("600000-700000", "rw-p", exe, "0"), nil},
		"written to":    {mapping("400000-500000", "r-xp", exe, "4"), nil},
		"shared":        {mapping("400000-500000", "r--s", exe, "0"), nil},
		"another file":  {mapping("400000-500000", "r-xp", exe+"-runner", "0"), nil},
		"replaced":      {mapping("400000-500000", "r-xp", exe+" (deleted)", "0"), nil},
		"no file":       {mapping("400000-500000", "r-xp", "", "0"), nil},
		"nothing":       {"", nil},
	} {
		if got, err := ownSegments(row.text, exe); err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: %x, %v; want %x", name, got, err, row.want)
		}
	}
	for _, bad := range []string{"500000-400000 r-xp 0 fe:00 1 " + exe + "\nAnonymous: 0 kB\n", "x-y r-xp 0 fe:00 1 " + exe + "\n", "400000-500000 r-xp 0 fe:00 1 " + exe + "\n"} {
		if got, err := ownSegments(bad, exe); err == nil {
			t.Errorf("%q: %x", bad, got)
		}
	}
}

// The process goes on, and has found something to forget.
func TestForgetProgram(t *testing.T) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := ownSegments(string(smaps), exe); err != nil || len(found) == 0 {
		t.Fatalf("%x, %v", found, err)
	}
	if err := forgetProgram(); err != nil {
		t.Error(err)
	}
}

// Memory is given back once after each busy time, and never in one.
func TestQuiet(t *testing.T) {
	var q quiet
	for i, row := range []struct {
		now  int64
		over bool
	}{{0, false}, {0, false}, {3, false}, {3, true}, {3, false}, {4, false}, {5, false}, {5, true}, {5, false}} {
		if got := q.turn(row.now); got != row.over {
			t.Errorf("turn %d: %t", i, got)
		}
	}
}

// FuzzOwnSegments: no range is empty or ends before it begins, whatever the text.
func FuzzOwnSegments(f *testing.F) {
	f.Add("400000-500000 r-xp 0 fe:00 1 /exe\nAnonymous: 0 kB\n")
	f.Add("400000-500000 r--p 0 fe:00 1 /exe\nAnonymous: 4 kB\n500000-400000 r-xp 0 fe:00 1 /exe\n")
	f.Add("- r-xp 0 0 0 /exe\n:\n")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := ownSegments(text, "/exe")
		if err != nil && found != nil {
			t.Fatalf("%q: %x and %v", text, found, err)
		}
		for _, one := range found {
			if one.from >= one.to {
				t.Errorf("%q: %x", text, one)
			}
		}
	})
}
