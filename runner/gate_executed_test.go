package runner

import (
	"context"
	"testing"
	"time"
)

// The daemon may come too late to see on which side of execve a program died: by then it is reaped. So the worker sees it, who may look at a
// zombie of another uid, which /proc hides from it, only with that uid's eyes.
func TestWorkerSeesExecve(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		for _, line := range []string{"kill -KILL $$", "kill -SEGV $$"} {
			c := prepared(t, s, testPlan(t, s), testInvocation(line))
			if err := c.Release(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			exit := c.Wait(ctx)
			cancel()
			if !exit.Known || !exit.Status.Signaled() || c.heard.exit.flags&exitExecuted == 0 {
				t.Errorf("%s: %+v, flags %#x", line, exit.Status, c.heard.exit.flags)
			}
		}
	})
}
