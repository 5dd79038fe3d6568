package fence

import "testing"

// TestWorks: as root and as an ordinary user, with IPv6 and without.
func TestWorks(t *testing.T) {
	for _, withIPv6 := range []bool{true, false} {
		if err := Works(AnyIP(withIPv6)); err != nil && withIPv6 {
			t.Errorf("IPv6 %t: %v", withIPv6, err)
		}
	}
}
