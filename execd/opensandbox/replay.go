package opensandbox

import "sync"

// replay is the end of what a terminal has written: up to mostReplay bytes, by their offset since its beginning. One client at a time follows it. What
// it hasn't taken isn't thrown away, so that who writes waits for it; where there is none, the oldest goes.
type replay struct {
	mu   sync.Mutex // guards what follows
	more sync.Cond
	// data ends at offset end.
	data []byte
	end  int64
	// taken is how far the client has come; -1: there is none.
	taken int64
	// over says that nothing more is to wait.
	over bool
}

const mostReplay = 1 << 20

func newReplay() *replay {
	r := &replay{taken: -1}
	r.more.L = &r.mu
	return r
}

// write adds a piece, when there is room for it.
func (r *replay) write(piece []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(piece) > 0 {
		n := min(len(piece), mostReplay/4)
		for !r.over && r.taken >= 0 && r.end+int64(n)-r.taken > mostReplay {
			r.more.Wait()
		}
		if excess := len(r.data) + n - mostReplay; excess > 0 {
			r.data = r.data[:copy(r.data, r.data[excess:])]
		}
		r.data = append(r.data, piece[:n]...)
		r.end += int64(n)
		piece = piece[n:]
		r.more.Broadcast()
	}
}

// follow has a client begin at an offset, or at the oldest byte there is, and gives what there is from there on.
func (r *replay) follow(since int64) (missed []byte, from int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.end - int64(len(r.data))
	from = min(max(since, oldest), r.end)
	missed = append([]byte(nil), r.data[from-oldest:]...)
	r.taken = r.end
	return missed, from
}

// leave says that there is no client any more.
func (r *replay) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = -1
	r.more.Broadcast()
}

// next waits for what comes after what was taken, and takes it; nil: stopped says so, or the client has left.
func (r *replay) next(buffer []byte, stopped func() bool) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.taken == r.end && !stopped() {
		r.more.Wait()
	}
	if r.taken < 0 || r.taken == r.end {
		return nil
	}
	n := copy(buffer, r.data[int64(len(r.data))-(r.end-r.taken):])
	r.taken += int64(n)
	r.more.Broadcast()
	return buffer[:n]
}

// wake has those who wait look again.
func (r *replay) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more.Broadcast()
}

// close has nobody wait any more.
func (r *replay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.more.Broadcast()
}

// written is how much there has been.
func (r *replay) written() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}
