package fence

import (
	"slices"
	"strings"
	"testing"
)

// TestUnseen: what a sidecar can't look for is said by name; where there is nothing but a loopback there is nothing of the kind.
func TestUnseen(t *testing.T) {
	plan, err := Pod(PodSpec{Runner: []uint32{1001}, Allowed: []uint32{1002}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range plan.Unseen() {
		name, why, found := strings.Cut(line, ": ")
		if !found || why == "" {
			t.Errorf("%q doesn't say why", line)
		}
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"fence.bpf-links", "fence.cgroup-bpf", "fence.xfrm"}) {
		t.Errorf("unseen are %v", names)
	}
	if unseen := AnyIP(true, true).Unseen(); len(unseen) != 0 {
		t.Errorf("beside a loopback: %v", unseen)
	}
}

// TestPodKeepsUIDsApart: no uid is the runner's and one that may send to the network, and a fence for nobody is none.
func TestPodKeepsUIDsApart(t *testing.T) {
	for name, test := range map[string]struct {
		spec PodSpec
		want string
	}{
		"the daemon's": {PodSpec{Runner: []uint32{1001, 1002}, Allowed: []uint32{0, 1002}}, "uid 1002 is the runner's and may send to the network"},
		"nobody's":     {PodSpec{Allowed: []uint32{1002}}, "a pod needs the runner's uid"},
	} {
		if plan, err := Pod(test.spec); err == nil || !strings.Contains(err.Error(), test.want) || len(plan.Netfilter) != 0 {
			t.Errorf("%s: %v, %d bytes of rules", name, err, len(plan.Netfilter))
		}
	}
}
