package opensandbox

import (
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// mostFrame is the longest event that every client takes.
const mostFrame = 4 << 20

// pingEvery is how long a stream is quiet before a ping.
const pingEvery = 3 * time.Second

// stream writes the events of one command: each is one line of JSON and an empty line, handed on at once. It is the sink of the command's walk, and writes
// at the client's pace: the command waits. When the client is gone it takes everything and drops it.
type stream struct {
	w     http.ResponseWriter
	id    string
	stall time.Duration
	// over ends the stream whatever the client does.
	over <-chan struct{}
	quit chan struct{}
	wait sync.WaitGroup

	mu sync.Mutex // guards what follows
	// out is what is being written.
	out    []byte
	begun  bool
	ended  bool
	gone   bool
	last   time.Time
	stdout lines
	stderr lines
}

func newStream(w http.ResponseWriter, id string, stall time.Duration, over <-chan struct{}) *stream {
	s := &stream{w: w, id: id, stall: stall, over: over, quit: make(chan struct{})}
	s.stdout.emit = func(text []byte) { s.text("stdout", text) }
	s.stderr.emit = func(text []byte) { s.text("stderr", text) }
	return s
}

// begin sends the headers and the first event, and pings from then on.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return
	}
	s.begun = true
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	s.text("init", []byte(s.id))
	s.flush()
	s.wait.Add(2)
	go s.ping()
	go s.letGo()
}

// text adds an event that has a text; mu is held. A text whose frame would be too long is cut at characters.
func (s *stream) text(kind string, text []byte) {
	const besides = 256
	for encodedSize(text) > mostFrame-besides {
		cut := (mostFrame - besides) / 6
		if cut >= len(text) {
			break
		}
		for cut > 0 && text[cut]&0xc0 == 0x80 {
			cut--
		}
		s.event(kind, text[:cut])
		text = text[cut:]
	}
	s.event(kind, text)
}

func (s *stream) event(kind string, text []byte) {
	s.out = append(append(append(s.out, `{"type":"`...), kind...), `","timestamp":`...)
	s.out = appendInt(s.out, time.Now().UnixMilli())
	s.out = append(s.out, `,"text":`...)
	s.out = appendText(s.out, text)
	s.out = append(s.out, "}\n\n"...)
	if len(s.out) > 256<<10 {
		s.flush()
	}
}

// flush writes what there is; mu is held.
func (s *stream) flush() {
	if len(s.out) == 0 {
		return
	}
	if !s.gone {
		connection := http.NewResponseController(s.w)
		_ = connection.SetWriteDeadline(time.Now().Add(s.stall)) // a recorder in a test has none
		select {
		case <-s.over:
			_ = connection.SetWriteDeadline(time.Now().Add(time.Second))
		default:
		}
		_, err := s.w.Write(s.out)
		if err == nil {
			err = connection.Flush()
		}
		s.gone = err != nil
	}
	s.last = time.Now()
	if s.out = s.out[:0]; cap(s.out) > 1<<20 {
		s.out = nil
	}
}

// ping says something when nothing else does.
func (s *stream) ping() {
	defer s.wait.Done()
	timer := time.NewTicker(pingEvery / 3)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.quit:
			return
		}
		s.mu.Lock()
		if !s.ended && time.Since(s.last) >= pingEvery-pingEvery/6 {
			s.text("ping", []byte("pong"))
			s.flush()
		}
		s.mu.Unlock()
	}
}

// letGo ends a write that waits for a client, when the sandbox ends.
func (s *stream) letGo() {
	defer s.wait.Done()
	select {
	case <-s.over:
		_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(time.Second))
	case <-s.quit:
	}
}

// Decision is of the walk's sink.
func (s *stream) Decision(policy.Decision) {}

// Output is a piece of a stream.
func (s *stream) Output(name string, chunk []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "stdout" {
		s.stdout.write(chunk)
	} else {
		s.stderr.write(chunk)
	}
	s.flush()
}

// finish sends what has no end yet, and the one terminal event.
func (s *stream) finish(e ending) {
	s.begin()
	s.mu.Lock()
	s.stdout.end()
	s.stderr.end()
	if e.line != "" {
		s.text("stderr", []byte(e.line))
	}
	now := time.Now().UnixMilli()
	if e.code == 0 {
		s.out = appendInt(append(s.out, `{"type":"execution_complete","timestamp":`...), now)
		s.out = append(appendInt(append(s.out, `,"execution_time":`...), e.duration.Milliseconds()), "}\n\n"...)
	} else {
		s.out = appendInt(append(s.out, `{"type":"error","timestamp":`...), now)
		s.out = append(appendText(append(s.out, `,"error":{"ename":`...), []byte(e.name)), `,"evalue":"`...)
		s.out = append(appendInt(s.out, int64(e.code)), `","traceback":[`...)
		s.out = append(appendText(s.out, []byte(e.trace)), "]}}\n\n"...)
	}
	s.flush()
	s.ended = true
	s.mu.Unlock()
	close(s.quit)
	s.wait.Wait()
}
