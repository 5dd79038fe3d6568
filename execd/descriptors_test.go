package execd

import "testing"

func TestCheckDescriptors(t *testing.T) {
	c := DefaultConfig("/")
	for _, test := range []struct {
		limit int64
		ok    bool
	}{{-1, true}, {4096, true}, {1024, false}} {
		if err := c.checkDescriptors(test.limit); (err == nil) != test.ok {
			t.Errorf("%d: %v", test.limit, err)
		}
	}
	c.Pool, c.MaxRunning, c.MaxSandboxes = 0, 1, 0 // one command by itself
	if err := c.checkDescriptors(256); err != nil {
		t.Error(err)
	}
}
