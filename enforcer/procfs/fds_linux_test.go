package procfs

import (
	"maps"
	"testing"
)

// Both ways to read descriptors say the same. Some of the runtime's come and go, so the texts of a pipe of ours are looked for in both.
func TestFDsByCopyAreTheSame(t *testing.T) {
	self := openSelf(t)
	listed, err := self.listFDs()
	if err != nil {
		t.Fatal(err)
	}
	copied, err := self.copyFDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, fds := range []map[int]string{listed, copied} {
		// What was opened for the reading itself is only in one of them.
		maps.DeleteFunc(fds, func(_ int, text string) bool { return len(text) > 6 && (text[:6] == "/proc/" || text[:6] == "anon_i") })
	}
	if !maps.Equal(listed, copied) {
		t.Errorf("listed %v\ncopied %v", listed, copied)
	}
}
