package execd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// ids gives each sandbox of a root daemon a pair of ids that no other sandbox of this machine has: one for its launcher and workers, one for
// its children. RLIMIT_NPROC, signals and file permissions would couple two sandboxes with one id.
//
// Byte n of a file stands for pair n; whoever has it locked has the pair. The kernel drops the locks of a process that dies.
type ids struct {
	first, pairs int
	file         *os.File

	mu    sync.Mutex // guards what follows
	taken map[int]bool
	next  int
}

// openIDs opens the file of claims; an ordinary user has one id and needs none (nil).
func openIDs(c Config) (*ids, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.ClaimFile), 0o755); err != nil {
		return nil, fmt.Errorf("id claims: %w", err)
	}
	file, err := os.OpenFile(c.ClaimFile, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("id claims: %w", err)
	}
	return &ids{first: c.FirstUID, pairs: c.UIDs / 2, file: file, taken: map[int]bool{}}, nil
}

// take claims a pair that nobody has. The pairs are gone through in turn, so that what one sandbox left behind somewhere isn't the next one's.
func (i *ids) take() (pair int, err error) {
	if i == nil {
		return 0, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for range i.pairs {
		pair = i.next
		i.next = (i.next + 1) % i.pairs
		if i.taken[pair] {
			continue
		}
		err := i.lock(pair, unix.F_WRLCK)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			continue // another process's
		}
		if err != nil {
			return 0, fmt.Errorf("id claims: lock: %w", err)
		}
		i.taken[pair] = true
		return pair, nil
	}
	return 0, fmt.Errorf("all %d pairs of ids from %d are taken", i.pairs, i.first)
}

// give returns a pair whose sandbox is proven to be gone.
func (i *ids) give(pair int) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.taken, pair)
	_ = i.lock(pair, unix.F_UNLCK) // at worst the pair stays claimed until we end
}

// lock changes the claim of one pair. Open file description locks belong to the file, not to a thread or process.
func (i *ids) lock(pair int, kind int16) error {
	claim := unix.Flock_t{Type: kind, Whence: unix.SEEK_SET, Start: int64(i.first + 2*pair), Len: 2}
	return unix.FcntlFlock(i.file.Fd(), unix.F_OFD_SETLK, &claim)
}

func (i *ids) identities(pair int) (worker, child enforcer.Identity) {
	if i == nil {
		return worker, child
	}
	base := i.first + 2*pair
	return enforcer.Identity{UID: base, GID: base}, enforcer.Identity{UID: base + 1, GID: base + 1}
}

func (i *ids) close() {
	if i != nil {
		i.file.Close()
	}
}
