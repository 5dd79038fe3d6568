package runner

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

// flow counts what goes through a reader that keeps nothing: so that somebody can wait until all that was written by now has been passed on.
type flow struct {
	mu sync.Mutex // guards what follows
	// taken was read from the pipe, passed has gone to the tee.
	taken, passed int64
	// ended says that nothing more is read, whole that it was the end of the stream.
	ended, whole bool
	// moved is closed when there is news, for who waits; nil: nobody does.
	moved chan struct{}
}

// pass says that n bytes more have gone to the tee.
func (f *flow) pass(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed += n
	f.tell()
}

// end says that the reader reads no more; whole: nothing more comes.
func (f *flow) end(whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.whole = true, whole
	f.tell()
}

func (f *flow) tell() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// await waits until so much has gone to the tee, and says whether it has: else nobody reads any more, or ctx has ended.
func (f *flow) await(ctx context.Context, target int64) bool {
	for {
		f.mu.Lock()
		if f.ended || f.passed >= target {
			defer f.mu.Unlock()
			return f.passed >= target && (f.whole || !f.ended)
		}
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// written is how much was written until now, as far as it can be known.
func (r *reader) written() (total int64) {
	r.flow.mu.Lock()
	defer r.flow.mu.Unlock()
	total = r.flow.taken
	if r.flow.ended {
		return total
	}
	r.control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			total += int64(waiting)
		}
	})
	return total
}

// Flowed waits until all output that the tree has written by now has gone to the tee, and says whether it has. When the child ends meanwhile it may not
// have, and Wait passes on the rest. It is for a child with IO.Unkept, from its release on; it may be called at any time by anyone.
func (c *Child) Flowed(ctx context.Context) bool {
	whole := true
	for _, r := range []*reader{c.stdout, c.stderr} {
		whole = r.flow.await(ctx, r.written()) && whole
	}
	return whole
}
