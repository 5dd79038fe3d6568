package execd

import (
	"bufio"
	"bytes"
	"encoding/json/v2"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

func events(t *testing.T, body []byte) []Event {
	t.Helper()
	var list []Event
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		list = append(list, e)
	}
	return list
}

// TestStreamKeepsEveryByte cuts text and bytes at every place: what arrives is what was written, and text arrives as text.
func TestStreamKeepsEveryByte(t *testing.T) {
	for _, written := range []string{"aé漢😀z\r\n\r", "\xff\xfe\x00é\x80", "😀\xf0\x9f", ""} {
		for size := 1; size <= len(written)+1; size++ {
			recorder := httptest.NewRecorder()
			s := newStream(recorder, time.Second, func() {})
			s.Decision(policy.Decision{Allow: true})
			for rest := []byte(written); len(rest) > 0; {
				n := min(size, len(rest))
				s.Output("stdout", bytes.Clone(rest[:n]))
				rest = rest[n:]
			}
			code := 0
			s.finish(Reply{Outcome: OutcomeOK, ExitCode: &code, Stdout: &written})
			list := events(t, recorder.Body.Bytes())
			var got []byte
			for _, e := range list[1 : len(list)-1] {
				got = append(got, streamBytes(e.Data, e.DataBase64)...)
				if e.Data == nil && strings.HasPrefix(written, "a") {
					t.Errorf("%q in pieces of %d: text came as base64", written, size)
				}
			}
			if string(got) != written {
				t.Errorf("%q in pieces of %d came as %q", written, size, got)
			}
			if first, last := list[0], list[len(list)-1]; first.Event != "decision" || last.Event != "exit" || last.Reply.Stdout != nil {
				t.Errorf("first event %q, last %+v", first.Event, last)
			}
		}
	}
}

func TestStreamHasOneTerminalEvent(t *testing.T) {
	for _, row := range []struct {
		name     string
		decision *policy.Decision
		reply    Reply
		status   int
		want     string
	}{
		{"ran", &policy.Decision{Allow: true}, Reply{Outcome: OutcomeError, ReturnValue: []byte("1"), ReturnValueHow: "value"}, 200, "decision result exit"},
		{"denied", &policy.Decision{}, Reply{Outcome: OutcomeDenied}, 403, "decision exit"},
		{"failed before a decision", nil, Reply{Outcome: OutcomeInfra}, 500, "exit"},
		{"mismatch after the decision", &policy.Decision{Allow: true}, Reply{Outcome: OutcomeMismatch}, 200, "decision exit"},
	} {
		recorder := httptest.NewRecorder()
		s := newStream(recorder, time.Second, func() {})
		if row.decision != nil {
			s.Decision(*row.decision)
		}
		s.finish(row.reply)
		var names []string
		for _, e := range events(t, recorder.Body.Bytes()) {
			names = append(names, e.Event)
		}
		if got := strings.Join(names, " "); got != row.want || recorder.Code != row.status {
			t.Errorf("%s: %d with %s, want %d with %s", row.name, recorder.Code, got, row.status, row.want)
		}
		if recorder.Header().Get("Content-Type") != ndjson {
			t.Errorf("%s: %s", row.name, recorder.Header())
		}
	}
}

// brokenPipe is a client that is gone.
type brokenPipe struct{ http.ResponseWriter }

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestStreamCancelsWhenTheClientIsGone(t *testing.T) {
	cancelled := make(chan struct{})
	s := newStream(brokenPipe{httptest.NewRecorder()}, time.Second, func() { close(cancelled) })
	s.Decision(policy.Decision{Allow: true})
	<-cancelled
	for range 1000 {
		s.Output("stdout", []byte("nobody reads this"))
	}
	s.finish(Reply{Outcome: OutcomeCancelled}) // returns
}

// stuckClient takes nothing until it is let go.
type stuckClient struct {
	http.ResponseWriter
	let chan struct{}
}

func (c stuckClient) Write(data []byte) (int, error) {
	<-c.let
	return c.ResponseWriter.Write(data)
}

func (c stuckClient) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestStreamQueueIsBounded: whoever writes byte by byte, to both streams in turn, to a client that doesn't read, costs few events; and nothing of it is lost.
func TestStreamQueueIsBounded(t *testing.T) {
	recorder, let := httptest.NewRecorder(), make(chan struct{})
	s := newStream(stuckClient{recorder, let}, time.Minute, func() {})
	s.Decision(policy.Decision{Allow: true})
	want := map[string][]byte{}
	for i := range 3 * mostBytes {
		name := []string{"stdout", "stderr"}[i%2]
		piece := []byte{"abcdefg\n"[i/2%8]}
		want[name] = append(want[name], piece...)
		s.Output(name, piece)
	}
	s.mu.Lock()
	waiting := len(s.queue)
	s.mu.Unlock()
	if waiting > mostPieces+8 {
		t.Errorf("%d events wait for %d bytes", waiting, 3*mostBytes)
	}
	close(let)
	s.finish(Reply{Outcome: OutcomeOK})
	got := map[string][]byte{}
	for _, e := range events(t, recorder.Body.Bytes()) {
		data := streamBytes(e.Data, e.DataBase64)
		if len(data) > mostBytes {
			t.Errorf("an event of %d bytes", len(data))
		}
		got[e.Event] = append(got[e.Event], data...)
	}
	for name, bytesWritten := range want {
		if !bytes.Equal(got[name], bytesWritten) {
			t.Errorf("%s: %d bytes came, not the %d that were written", name, len(got[name]), len(bytesWritten))
		}
	}
}
