package cgroup

import (
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	for data, want := range map[string]time.Duration{
		"usage_usec 0\nuser_usec 0\nsystem_usec 0\n":                   0,
		"usage_usec 1500000\nuser_usec 9\nsystem_usec 8\nnr_periods 7": 1500 * time.Millisecond,
	} {
		if got, err := cpuTime([]byte(data)); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", data, got, err, want)
		}
	}
	for _, data := range []string{"", "user_usec 1\n", "usage_usec x\n", "usage_usec -1\n"} {
		if got, err := cpuTime([]byte(data)); err == nil {
			t.Errorf("%q: %s", data, got)
		}
	}
}

// Every group counts, whatever its controllers; and what has ended still counts.
func TestCPUTimeIsCounted(t *testing.T) {
	_, group := makeGroup(t)
	exe := leaf(t, group)
	if used, err := exe.CPUTime(); err != nil || used != 0 {
		t.Errorf("new: %s, %v", used, err)
	}
	command := start(t, exe, `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done`)
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if used, err := exe.CPUTime(); err != nil || used <= 0 {
		t.Errorf("after a loop: %s, %v", used, err)
	}
}
