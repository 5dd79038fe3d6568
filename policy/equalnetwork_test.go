package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNetworkEqual(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`{}`, `{"defaultAction":"deny","egress":[]}`, true},
		{`{}`, `{"defaultAction":"allow"}`, false},
		{`{"egress":[{"action":"allow","target":"A.test"},{"action":"allow","target":"b.test"}]}`,
			`{"egress":[{"action":"allow","target":"b.test"},{"action":"allow","target":"a.test"}]}`, true},
		{`{"egress":[{"action":"allow","target":"a.test","ports":[443,80]}]}`,
			`{"egress":[{"action":"allow","target":"a.test","ports":[80]},{"action":"allow","target":"a.test","ports":[443,80]}]}`, true},
		{`{"egress":[{"action":"allow","target":"a.test"}]}`,
			`{"egress":[{"action":"allow","target":"a.test","ports":[80]},{"action":"allow","target":"a.test"}]}`, true},
		{`{"egress":[{"action":"allow","target":"a.test"}]}`, `{"egress":[{"action":"allow","target":"a.test","ports":[80]}]}`, false},
		{`{"egress":[{"action":"allow","target":"*.a.test"},{"action":"deny","target":"x.a.test"}]}`,
			`{"egress":[{"action":"deny","target":"x.a.test"},{"action":"allow","target":"*.a.test"}]}`, false},
	} {
		a, err := ParseNetwork([]byte(test.a))
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseNetwork([]byte(test.b))
		if err != nil {
			t.Fatal(err)
		}
		if a.Equal(b) != test.want || b.Equal(a) != test.want {
			t.Errorf("%s equal to %s: %v", test.a, test.b, !test.want)
		}
	}
}

func TestNetworkEqualIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := someNetwork.Draw(t, "spec")
		b := a
		b.Egress = rapid.Permutation(a.Egress).Draw(t, "order")
		if !a.Equal(b) {
			return
		}
		for _, destination := range append(slices.Clone(worldNames), worldAddresses...) {
			for _, port := range append(worldPorts, 9) {
				if letsOut(a, destination, port) != letsOut(b, destination, port) {
					t.Fatalf("%s:%d by %+v isn't by %+v", destination, port, a, b)
				}
			}
		}
		if WithinNetwork(a, b) != nil || WithinNetwork(b, a) != nil {
			t.Fatalf("equal, and not within each other: %+v, %+v", a, b)
		}
	})
}
