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
	// marks say which stream what the client hasn't taken is of, each up to an offset.
	marks []mark
	// over says that nothing more is to wait.
	over bool
}

// mark is the end of a part that is of one stream.
type mark struct {
	end    int64
	errors bool
}

// mostMarks bounds how often a program may change between its streams before a client has taken any of it.
const mostMarks = 4096

const mostReplay = 1 << 20

func newReplay() *replay {
	r := &replay{taken: -1}
	r.more.L = &r.mu
	return r
}

// write adds a piece of standard output, or of standard error, when there is room for it.
func (r *replay) write(piece []byte, errors bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(piece) > 0 {
		n := min(len(piece), mostReplay/4)
		for !r.over && r.taken >= 0 && (r.end+int64(n)-r.taken > mostReplay || len(r.marks) >= mostMarks) {
			r.more.Wait()
		}
		if excess := len(r.data) + n - mostReplay; excess > 0 {
			r.data = r.data[:copy(r.data, r.data[excess:])]
		}
		r.data = append(r.data, piece[:n]...)
		r.end += int64(n)
		piece = piece[n:]
		if last := len(r.marks) - 1; r.taken >= 0 && last >= 0 && r.marks[last].errors == errors {
			r.marks[last].end = r.end
		} else if r.taken >= 0 {
			r.marks = append(r.marks, mark{r.end, errors})
		}
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
	r.taken, r.marks = r.end, nil
	return missed, from
}

// leave says that there is no client any more.
func (r *replay) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken, r.marks = -1, nil
	r.more.Broadcast()
}

// next waits for what comes after what was taken, and takes as much of it as is of one stream; nil: stopped says so, or the client has left.
func (r *replay) next(buffer []byte, stopped func() bool) (piece []byte, errors bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.taken == r.end && !stopped() {
		r.more.Wait()
	}
	if r.taken < 0 || r.taken == r.end || len(r.marks) == 0 {
		return nil, false
	}
	for first := r.marks[0]; first.end <= r.taken; first = r.marks[0] {
		r.marks = r.marks[1:]
	}
	rest := r.data[int64(len(r.data))-(r.end-r.taken):]
	n := copy(buffer, rest[:min(int64(len(rest)), r.marks[0].end-r.taken)])
	r.taken += int64(n)
	r.more.Broadcast()
	return buffer[:n], r.marks[0].errors
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
