package execd

import (
	"runtime"
	"testing"
	"time"
)

// TestNoNetworkIsLeft: a sandbox that was let out takes its sockets and whoever served them along when it ends. Descriptors and goroutines are
// counted while the service lives, after as many execs again as before the first count.
func TestNoNetworkIsLeft(t *testing.T) {
	ask := resolves(t)
	c := networked(t, "a.example", documentation)
	c.Pool = 0
	s := start(t, c)
	let := shell(ask("a.example"))
	let.Network = letting("a.example")
	round := func(times int) {
		for range times {
			mustBe(t, s.Exec(t.Context(), let, Options{}), OutcomeOK)
		}
		// Sandboxes for one exec end in the background.
		for deadline := time.Now().Add(20 * time.Second); len(s.sandboxes.alive(nil)) > 0; {
			if time.Now().After(deadline) {
				t.Fatalf("%d sandboxes are still there", len(s.sandboxes.alive(nil)))
			}
			time.Sleep(time.Millisecond) // polls the state that the test is about
		}
		s.sandboxes.background.Wait()
	}
	round(5)
	files, routines := openFiles(t), runtime.NumGoroutine()
	round(40)
	if now := openFiles(t); now > files+2 {
		t.Errorf("%d descriptors, %d after 40 more execs", files, now)
	}
	if now := runtime.NumGoroutine(); now > routines+2 {
		t.Errorf("%d goroutines, %d after 40 more execs", routines, now)
	}
}
