package opensandbox

import (
	"net/http"
	"strconv"
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

// head begins an event.
func (s *stream) head(kind string) {
	s.out = append(append(append(s.out, `{"type":"`...), kind...), `","timestamp":`...)
	s.out = appendInt(s.out, time.Now().UnixMilli())
}

func (s *stream) event(kind string, text []byte) {
	s.head(kind)
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
	last := func() { s.failed(e.name, strconv.Itoa(e.code), []string{e.trace}) }
	if e.code == 0 {
		last = func() { s.complete(e.duration) }
	}
	s.end(e.line, last)
}

// complete is the terminal event of a success; mu is held.
func (s *stream) complete(took time.Duration) {
	s.head("execution_complete")
	s.out = append(appendInt(append(s.out, `,"execution_time":`...), took.Milliseconds()), "}\n\n"...)
}

// failed is that of anything else.
func (s *stream) failed(name, value string, traceback []string) {
	s.head("error")
	s.out = appendText(append(s.out, `,"error":{"ename":`...), []byte(name))
	s.out = append(appendText(append(s.out, `,"evalue":`...), []byte(value)), `,"traceback":[`...)
	for i, line := range traceback {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		s.out = appendText(s.out, []byte(line))
	}
	s.out = append(s.out, "]}}\n\n"...)
}

// end sends what has no end yet, a line that the program itself couldn't write, and the terminal event.
func (s *stream) end(line string, last func()) {
	s.begin()
	s.mu.Lock()
	s.stdout.end()
	s.stderr.end()
	if line != "" {
		s.text("stderr", []byte(line))
	}
	last()
	s.flush()
	s.ended = true
	s.mu.Unlock()
	close(s.quit)
	s.wait.Wait()
}
