package audit

import (
	"sync/atomic"
	"testing"
)

// A note shares the sync of the record after it; alone, it is synced all the same, and so is one before the end.
func TestNotesShareSyncs(t *testing.T) {
	dir := t.TempDir()
	var syncs atomic.Int64
	synced := make(chan struct{}, 64)
	log, err := Open(dir, Options{open: faulty(func(string) error {
		syncs.Add(1)
		synced <- struct{}{}
		return nil
	}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for len(synced) > 0 {
		<-synced
	}
	syncs.Store(0)
	const pairs = 20
	for range pairs {
		if _, err := log.Append(t.Context(), Record{Type: TypeRelease}); err != nil {
			t.Fatal(err)
		}
		if _, err := log.Note(t.Context(), Record{Type: TypeOutcome}); err != nil {
			t.Fatal(err)
		}
	}
	// One for each release; a slow machine may have let a few notes become due.
	if n := syncs.Load(); n < pairs || n >= 2*pairs {
		t.Errorf("%d syncs for %d releases and as many notes", n, pairs)
	}
	for len(synced) > 0 {
		<-synced
	}
	if _, err := log.Note(t.Context(), Record{Type: TypeOutcome}); err != nil {
		t.Fatal(err)
	}
	<-synced // nothing came after it
	if _, err := log.Note(t.Context(), Record{Type: TypeOutcome}); err != nil {
		t.Fatal(err)
	}
	before := syncs.Load()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if syncs.Load() == before {
		t.Error("the log was closed with a note that is not durable")
	}
	if report, err := Verify(dir); err != nil {
		t.Errorf("%+v: %v", report, err)
	}
}
