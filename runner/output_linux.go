package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// reader reads one stream of a child to its end. It keeps the first limit bytes and counts the rest, which goes from the pipe to /dev/null
// without coming here: the memory in use doesn't depend on how much is written.
type reader struct {
	name  string
	file  *os.File
	limit int64
	tee   func(stream string, chunk []byte)
	// over is called once, when more than limit was written; nil: nothing is done.
	over func()
	out  Output
	// unkept passes everything to the tee and keeps nothing.
	unkept bool
	flow   flow
	// terminal says that file is our end of one: it has an error where a pipe ends.
	terminal bool
	// teed is how much of out.Data the tee has got.
	teed int
	done chan struct{}
	// rest is closed when nobody reads any more of what those write who were left behind.
	rest chan struct{}
}

// drainBound is how long after the tree's end a stream may stay open. Nobody of the tree holds it then.
const drainBound = 200 * time.Millisecond

// devNull takes what isn't kept.
var devNull = sync.OnceValues(func() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_WRONLY, 0) })

// newReader makes a pipe. The write end is the caller's.
func newReader(name string, with IO, over func()) (*reader, int, error) {
	read, write, err := pipe()
	if err != nil {
		return nil, -1, err
	}
	if err := unix.SetNonblock(read, true); err != nil {
		unix.Close(read)
		unix.Close(write)
		return nil, -1, err
	}
	r := &reader{name: name, file: os.NewFile(uintptr(read), name), limit: with.OutputBytes, tee: with.Tee, unkept: with.Unkept, done: make(chan struct{}), rest: make(chan struct{})}
	if with.OnLimit == KillTree {
		r.over = over
	}
	return r, write, nil
}

// run reads to the end.
func (r *reader) run() {
	defer close(r.done)
	if r.unkept {
		for r.pour() {
		}
		r.flow.end(!r.out.Incomplete)
		return
	}
	for r.keep() {
	}
	if r.out.Truncated {
		r.out.Data = r.out.Data[:boundary(r.out.Data)]
	}
	r.pass(len(r.out.Data))
}

// keep reads one chunk, into what is kept while there is room. It says whether to go on.
func (r *reader) keep() bool {
	have := len(r.out.Data)
	if int64(have) >= r.limit {
		return r.drop()
	}
	if have == cap(r.out.Data) {
		r.grow()
	}
	n, err := r.file.Read(r.out.Data[have:cap(r.out.Data)])
	r.out.Data = r.out.Data[:have+n]
	r.out.Total += int64(n)
	if int64(have+n) < r.limit {
		r.pass(have + n)
	} else {
		r.pass(boundary(r.out.Data)) // if this becomes the cut, it is on a character
	}
	return r.goOn(err)
}

// grow doubles the room, up to the limit.
func (r *reader) grow() {
	size := max(512, int64(cap(r.out.Data))*2)
	if size > 1024 {
		size = max(size, 64<<10) // more than a line: read a pipe's fill at a time
	}
	grown := make([]byte, len(r.out.Data), min(size, r.limit))
	copy(grown, r.out.Data)
	r.out.Data = grown
}

// drop counts what can't be kept.
func (r *reader) drop() bool {
	n, err := r.discard()
	if n > 0 {
		r.out.Total += n
		if !r.out.Truncated {
			r.out.Truncated = true
			// The pipe's fill at each system call is what the speed depends on now.
			r.control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
			if r.over != nil {
				r.over()
			}
		}
	}
	return r.goOn(err)
}

// discard moves some bytes to /dev/null. 0 without an error is the end.
func (r *reader) discard() (int64, error) {
	null, err := devNull()
	if err != nil {
		return 0, err
	}
	raw, err := r.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var moved int64
	var failed error
	sink := int(null.Fd())
	err = raw.Read(func(fd uintptr) bool {
		for {
			moved, failed = unix.Splice(int(fd), nil, sink, nil, 1<<20, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err == nil && failed == nil && moved == 0 {
		err = io.EOF
	}
	return max(moved, 0), errors.Join(err, failed)
}

func (r *reader) control(f func(fd uintptr)) {
	if raw, err := r.file.SyscallConn(); err == nil {
		_ = raw.Control(f) // a closed file: the next read says so
	}
}

// goOn says whether there may be more. What isn't the end of file and isn't an expected error still ends the stream, and says that it isn't whole.
func (r *reader) goOn(err error) bool {
	if err == nil {
		return true
	}
	r.out.Incomplete = !errors.Is(err, io.EOF)
	return false
}

// pass gives the tee what it hasn't got of the first n bytes.
func (r *reader) pass(n int) {
	if r.tee != nil && n > r.teed {
		r.tee(r.name, r.out.Data[r.teed:n])
		r.teed = n
	}
}

// finish waits for the end, which has no reason not to come, for a while. Where some of the tree are left their output is read on, and dropped.
func (r *reader) finish(left bool) Output {
	bound := time.Now().Add(drainBound)
	if r.unkept {
		bound = time.Unix(1, 0) // what is in the pipe is taken after that
	}
	r.file.SetReadDeadline(bound)
	<-r.done
	if r.unkept {
		r.drain()
	}
	if left {
		r.file.SetReadDeadline(time.Time{})
		go r.discardRest()
		return r.out
	}
	close(r.rest)
	r.file.Close()
	return r.out
}

// boundary is the length of the longest beginning of text that doesn't end within a character; of what isn't UTF-8, it is all.
func boundary(text []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		start := len(text) - back
		if !utf8.RuneStart(text[start]) {
			continue
		}
		if !utf8.FullRune(text[start:]) && utf8.Valid(text[:start]) {
			return start
		}
		break
	}
	return len(text)
}

func pipe() (read, write int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, os.NewSyscallError("pipe2", err)
	}
	return ends[0], ends[1], nil
}
