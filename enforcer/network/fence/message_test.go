package fence

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzState reads what isn't the kernel's: whatever it is, it is a line of text, and nothing is read beyond it.
func FuzzState(f *testing.F) {
	for _, request := range AnyIP(true, true).Route {
		f.Add(request)
	}
	f.Add(AnyIP(true, true).Netfilter)
	for _, kind := range []uint16{unix.RTM_GETLINK, unix.RTM_GETADDR, unix.RTM_GETROUTE, unix.RTM_GETRULE, unix.RTM_GETQDISC} {
		f.Add(dumpRequest(kind, unix.AF_INET))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		names := map[uint32]string{}
		for _, m := range append(messages(data), nlMessage{body: data}) {
			for _, line := range []string{linkText(m.body, names), addressText(m.body, names), routeText(m.body, names), ruleText(m.body), qdiscText(m.body, names),
				objectText("rule", m.body), objectText("table", m.body)} {
				if line == "" {
					t.Error("no text")
				}
			}
		}
		before := bytes.Clone(data)
		attributes(data, func(uint16, []byte, []byte) {})
		if !bytes.Equal(before, data) {
			t.Error("changed")
		}
	})
}

// TestDifference names the first line that is other.
func TestDifference(t *testing.T) {
	want := []string{"a", "b"}
	for _, test := range []struct {
		got  []string
		tail string
	}{{want, ""}, {[]string{"a"}, "; missing: b"}, {[]string{"a", "b", "c"}, "; other: c"}, {[]string{"x", "b"}, "; other: x"}} {
		if got := difference(rulesetLines, want, test.got); got != digestText(rulesetLines, test.got)+test.tail {
			t.Errorf("%v: %s", test.got, got)
		}
	}
}
