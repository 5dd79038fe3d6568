package runner

import (
	"testing"
)

// A warm sandbox has its first worker already, and only that one.
func TestSandboxWarm(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	for range 2 {
		if err := s.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w, err := s.worker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.number != 1 || s.number != 1 {
		t.Errorf("the first exec gets worker %d of %d", w.number, s.number)
	}
	s.putWorker(w)
	if verdict, err := s.Verify(); err != nil || !verdict.Held() {
		t.Errorf("%v; %+v", err, verdict.Failed())
	}
}
