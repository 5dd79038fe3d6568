package execd

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/policy"
)

// Event is one line of a stream. First "decision", then any number of "stdout" and "stderr", "result" where there is a value, and always
// exactly one "exit" at the end: a stream without it was cut.
type Event struct {
	Event string `json:"event"`
	// Decision is set in "decision".
	Decision *Judgment `json:"decision,omitzero"`
	// Data is set in "stdout" and "stderr" when the piece is UTF-8, else DataBase64 is.
	Data       *string `json:"data,omitzero"`
	DataBase64 []byte  `json:"dataBase64,omitempty"`
	// ReturnValue and what follows are set in "result".
	ReturnValue       jsontext.Value `json:"returnValue,omitzero"`
	ReturnValueHow    string         `json:"returnValueHow,omitempty"`
	ReturnValueReason string         `json:"returnValueReason,omitempty"`
	// Reply is set in "exit": the whole reply but for what was streamed.
	Reply *Reply `json:"reply,omitzero"`
}

// stream writes events as they come. Output never waits for the client: it is queued, which takes little more memory than the output limit that
// the request has anyway, since small pieces are put together, and a goroutine writes. A client that doesn't take a line within the bound is
// gone, and its exec is cancelled.
type stream struct {
	out    http.ResponseWriter
	bound  time.Duration
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex // guards what follows
	ready sync.Cond
	queue []queued
	// begun has the bytes of a character whose end hasn't come yet.
	begun map[string][]byte
	// status is what the answer begins with.
	status int
	ended  bool
}

// queued is an event that waits: output as a piece that may still grow, anything else as it is.
type queued struct {
	event  Event
	output string
	data   []byte
	// value is that of the event, when it is long.
	value *Value
}

// A program that writes byte by byte to a client that doesn't read must not cost an event for each: from mostPieces on, a piece joins the newest
// one of its stream, whatever came to the other stream in between. No piece grows beyond mostBytes.
const (
	mostPieces = 256
	mostBytes  = 64 << 10
)

func newStream(out http.ResponseWriter, bound time.Duration, cancel context.CancelFunc) *stream {
	s := &stream{out: out, bound: bound, cancel: cancel, done: make(chan struct{}), begun: map[string][]byte{}}
	s.ready.L = &s.mu
	go s.write()
	return s
}

// Decision is the first event; the answer's status is 403 when it is a no.
func (s *stream) Decision(d policy.Decision) {
	judgment := judgmentOf(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = http.StatusOK
	if !d.Allow {
		s.status = http.StatusForbidden
	}
	s.add(Event{Event: "decision", Decision: &judgment})
}

// Output is a piece of a stream. Characters aren't torn: the begun one at the end of a piece goes with the next.
func (s *stream) Output(name string, chunk []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := append(s.begun[name], chunk...)
	cut := len(data) - partialRune(data)
	s.begun[name] = append([]byte(nil), data[cut:]...)
	if cut > 0 {
		s.addOutput(name, data[:cut])
	}
}

// addOutput queues a piece; mu is held.
func (s *stream) addOutput(name string, data []byte) {
	for i, piece := range slices.Backward(s.queue) {
		if piece.output == name && len(piece.data)+len(data) <= mostBytes {
			s.queue[i].data = append(piece.data, data...)
			return
		}
		if piece.output == name || len(s.queue) < mostPieces {
			break // full, or there is room to keep the order of both streams
		}
	}
	s.queue = append(s.queue, queued{output: name, data: data})
	s.ready.Signal()
}

func outputEvent(name string, data []byte) Event {
	if !utf8.Valid(data) {
		return Event{Event: name, DataBase64: data}
	}
	text := string(data)
	return Event{Event: name, Data: &text}
}

// add queues an event; mu is held.
func (s *stream) add(e Event) {
	s.queue = append(s.queue, queued{event: e})
	s.ready.Signal()
}

// finish sends what is left and the terminal event, and waits until it is written or can't be.
func (s *stream) finish(reply Reply) {
	s.mu.Lock()
	for _, name := range []string{"stdout", "stderr"} {
		if rest := s.begun[name]; len(rest) > 0 {
			s.addOutput(name, rest)
		}
	}
	if reply.ReturnValueHow != "" {
		result := Event{Event: "result", ReturnValue: reply.ReturnValue, ReturnValueHow: reply.ReturnValueHow, ReturnValueReason: reply.ReturnValueReason}
		s.queue = append(s.queue, queued{event: result, value: reply.value})
	}
	reply.Stdout, reply.StdoutBase64, reply.Stderr, reply.StderrBase64 = nil, nil, nil, nil
	if s.status == 0 {
		s.status = statusOf(reply.Outcome)
	}
	s.add(Event{Event: "exit", Reply: &reply})
	s.ended = true
	s.mu.Unlock()
	<-s.done
}

// write is the goroutine that alone touches the connection, until the last event is written. When the client is gone it takes the events
// and drops them.
func (s *stream) write() {
	defer close(s.done)
	connection := http.NewResponseController(s.out)
	begun, gone := false, false
	for {
		events, status, last := s.next()
		if !gone && !begun {
			s.out.Header().Set("Content-Type", ndjson)
			s.out.WriteHeader(status)
			begun = true
		}
		if !gone {
			if err := s.writeEvents(connection, events); err != nil {
				gone = true
				s.cancel()
			}
		}
		if last {
			_ = connection.SetWriteDeadline(time.Time{}) // the connection may serve another request
			return
		}
	}
}

// next waits for events and takes them all.
func (s *stream) next() (events []queued, status int, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 {
		s.ready.Wait()
	}
	events, s.queue = s.queue, nil
	return events, s.status, s.ended
}

func (s *stream) writeEvents(connection *http.ResponseController, events []queued) error {
	for _, waiting := range events {
		event := waiting.event
		if waiting.output != "" {
			event = outputEvent(waiting.output, waiting.data)
		}
		line, err := lineOf(event, waiting.value)
		if err != nil {
			return err
		}
		_ = connection.SetWriteDeadline(time.Now().Add(s.bound)) // a recorder in a test has none
		if err := line.pieces(paced(s.out, s.bound)); err != nil {
			return err
		}
	}
	return connection.Flush()
}

// lineOf is an event's line; value is what it has of a long one.
func lineOf(event Event, value *Value) (t replyText, err error) {
	var names []string
	if value != nil {
		names, t.inserts = []string{`"returnValue":`}, []insert{{value: value}}
		event.ReturnValue = standIn
	}
	line, err := json.Marshal(event, wire)
	if err == nil {
		t.cut(line, names)
	}
	return t, err
}
