package execd

import (
	"os"
	"path/filepath"
	"testing"
)

func TestIDsAreNobodyElses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives ids away")
	}
	c := DefaultConfig(t.TempDir())
	c.ClaimFile = filepath.Join(t.TempDir(), "run", "ids")
	c.FirstUID, c.UIDs = 300_000, 8 // four pairs
	one, err := openIDs(c)
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	two, err := openIDs(c) // another daemon
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for i := range 4 {
		from := one
		if i%2 == 1 {
			from = two
		}
		pair, err := from.take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[pair] {
			t.Fatalf("pair %d was given twice", pair)
		}
		seen[pair] = true
		worker, child := from.identities(pair)
		if worker.UID != 300_000+2*pair || child.UID != worker.UID+1 || worker.GID != worker.UID || child.GID != child.UID {
			t.Errorf("pair %d is %+v and %+v", pair, worker, child)
		}
	}
	if pair, err := one.take(); err == nil {
		t.Fatalf("a fifth of four pairs: %d", pair)
	}
	two.close() // the other daemon dies
	for range 2 {
		if _, err := one.take(); err != nil {
			t.Fatalf("after the other's end: %v", err)
		}
	}
	one.give(3)
	if pair, err := one.take(); err != nil || pair != 3 {
		t.Errorf("after its return: %d, %v", pair, err)
	}
}
