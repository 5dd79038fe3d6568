package execd

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestEachConstant(t *testing.T) {
	const smaps = `00400000-00b3a000 r-xp 00000000 fd:00 42                                 /usr/bin/sandboxd
Size:               7400 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
00b3a000-01300000 r--p 0073a000 fd:00 42                                 /usr/bin/sandboxd
Rss:                1200 kB
Anonymous:             0 kB
01300000-01400000 r--p 00f00000 fd:00 42                                 /usr/bin/sandboxd
Anonymous:             4 kB
01400000-01500000 rw-p 01000000 fd:00 42                                 /usr/bin/sandboxd
Anonymous:             0 kB
01500000-01600000 r--s 01000000 fd:00 42                                 /usr/bin/sandboxd
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fd:00 43                         /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000002000-7f0000003000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	var got []string
	if err := eachConstant(strings.NewReader(smaps), "/usr/bin/sandboxd", func(start, end uintptr) error {
		got = append(got, fmt.Sprintf("%x-%x", start, end))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "[400000-b3a000 b3a000-1300000]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// The code that is taken out comes back: this test goes on.
func TestUnmapCode(t *testing.T) {
	if err := unmapCode(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile("/proc/self/smaps"); err != nil {
		t.Fatal(err)
	}
}
