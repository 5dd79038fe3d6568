package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// What is left of a tree is found with a cgroup and without, and is no more stuck than it is. A worker whose child is at the gate is in state D itself.
// test/catalogue.TestHungFileSystem has processes that are.
func TestLeftover(t *testing.T) {
	both(t, func(t *testing.T) {
		s, _, plan := realSandbox(t, 1)
		c := prepared(t, s, plan, testInvocation("sleep 1000 & sleep 1000 & wait"))
		atGate := func() {
			if left, known := c.leftover(); !known || !slices.Equal(left, []int{c.pid}) || c.isStuck() {
				t.Errorf("at the gate: %v, %t, stuck %t; want %d", left, known, c.isStuck(), c.pid)
			}
		}
		atGate()
		group := c.group
		c.group = nil
		atGate()
		c.group = group
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.worker.pid))
		if err != nil {
			t.Fatal(err)
		}
		states := ""
		for _, thread := range threads {
			states += string(state(fmt.Sprintf("/proc/%d/task/%s/stat", c.worker.pid, thread.Name())))
		}
		t.Log("the worker's threads: ", states)
		if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
			t.Fatal(err)
		}
		for {
			if left, _ := c.leftover(); len(left) == 3 {
				break
			}
		}
		c.group = nil
		if left, known := c.leftover(); !known || len(left) != 3 || left[0] != c.pid || c.isStuck() {
			t.Errorf("without a cgroup: %v, %t", left, known)
		}
		c.group = group
		c.Kill()
		if exit := c.Wait(context.Background()); !exit.TreeEmpty || exit.Stuck {
			t.Errorf("%+v", exit)
		}
		if _, ok := numbersOf("1 2\nx"); ok || state("/proc/self/none") != 0 {
			t.Error("what can't be read is something")
		}
	})
}
