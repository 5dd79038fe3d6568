package opensandbox

import (
	"context"
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/sandboxd/sandboxd/execd"
)

// The first byte of a binary frame: what a client types, what the terminal shows, or standard output and error where there are pipes, and what it has shown before, whose offset in 8 bytes (big endian) comes first.
const (
	frameInput  = 0x00
	frameOutput = 0x01
	frameErrors = 0x02
	frameReplay = 0x03
)

// closeTakenOver is the status by which a client is told that another has its place.
const closeTakenOver websocket.StatusCode = 4001

const (
	// mostInput bounds a client's frame.
	mostInput = 1 << 20
	// inputBound is how long a program may read nothing of what is typed, once the kernel holds no more.
	inputBound = 10 * time.Second
	// heartbeat is how often a client is asked whether it is there, and how long it may take to say so.
	heartbeat = 30 * time.Second
	// leaveBound is how long a client that has to go may take what is being written to it.
	leaveBound = time.Second
)

// clientFrame is what a client says in text.
type clientFrame struct {
	Type   string `json:"type"`
	Data   string `json:"data"`
	Cols   int    `json:"cols"`
	Rows   int    `json:"rows"`
	Signal string `json:"signal"`
}

// serverFrame is what it is told in text.
type serverFrame struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id,omitempty"`
	Mode      string `json:"mode,omitempty"`
	ExitCode  *int   `json:"exit_code,omitzero"`
	Error     string `json:"error,omitempty"`
	Code      string `json:"code,omitempty"`
}

// attachTerminal gives a client its place at a session, until one of the two ends.
func (f *Facade) attachTerminal(x *exchange, t *terminal) error {
	query := x.r.URL.Query()
	since, err := strconv.ParseInt(query.Get("since"), 10, 64)
	switch {
	case query.Get("since") == "":
		since = 0
	case err != nil || since < 0:
		return faultf(http.StatusBadRequest, execdBody, "since: %.40q isn't an offset", query.Get("since"))
	}
	switch {
	case !strings.EqualFold(x.r.Header.Get("Upgrade"), "websocket"):
		return faultf(http.StatusUpgradeRequired, execdBody, "this path is a WebSocket")
	case !sameOrigin(x.r):
		return faultf(http.StatusForbidden, "ORIGIN_REFUSED", "the page of another origin has no business here")
	case query.Get("takeover") != "1" && t.taken():
		return faultf(http.StatusConflict, "ALREADY_CONNECTED", "the session has a client; takeover=1 takes its place")
	}
	conn, err := websocket.Accept(x.w, x.r, nil)
	if err != nil {
		return errors.Join(err, http.ErrAbortHandler) // it is answered
	}
	conn.SetReadLimit(mostInput)
	done := make(chan struct{})
	f.running.Go(func() { // a hijacked connection is nobody's to wait for but ours
		defer close(done)
		defer func() { _ = conn.CloseNow() }() // it may be closed already
		f.seat(x.box, t, conn, query.Get("pty") == "0", since)
	})
	<-done
	return nil
}

// sameOrigin says whether a request comes from no page of a browser, or from one of this very server.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && strings.EqualFold(from.Host, r.Host)
}

func (t *terminal) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.client != nil && !t.client.leaving
}

// seat has a client sit down.
func (f *Facade) seat(box *sandbox, t *terminal, conn *websocket.Conn, pipes bool, since int64) {
	ctx, evict := context.WithCancelCause(t.life)
	defer evict(nil)
	me := &seatedClient{evict: evict, left: make(chan struct{})}
	if !t.take(ctx, me) {
		return
	}
	defer t.leave(f, me)
	if err := f.startTerminal(box, t, pipes); err != nil {
		_ = tell(ctx, conn, serverFrame{Type: "error", Code: "START_FAILED", Error: err.Error()})
		_ = conn.Close(websocket.StatusNormalClosure, "not started")
		return
	}
	t.mu.Lock()
	mode := "pty"
	if t.pipes {
		mode = "pipe"
	}
	sitting := &sitting{mode: mode, facade: f, terminal: t, conn: conn, me: me, seat: t.seat, over: t.over}
	t.mu.Unlock()
	sitting.serve(ctx, evict, since)
}

// take waits for the place of who is there, who is asked to go.
func (t *terminal) take(ctx context.Context, me *seatedClient) bool {
	for {
		t.mu.Lock()
		before := t.client
		if before == nil {
			t.client = me
			t.absence.Stop()
			t.mu.Unlock()
			return true
		}
		t.mu.Unlock()
		before.evict(errTakenOver)
		select {
		case <-before.left:
		case <-ctx.Done():
			return false
		}
	}
}

// leave gives a place up.
func (t *terminal) leave(f *Facade, me *seatedClient) {
	t.replay.leave()
	t.mu.Lock()
	t.client = nil
	t.mu.Unlock()
	close(me.left)
	t.away(f)
}

// sitting is a client in its place.
type sitting struct {
	facade   *Facade
	terminal *terminal
	conn     *websocket.Conn
	me       *seatedClient
	mode     string
	seat     *execd.Terminal // nil: it has ended already
	over     chan struct{}
}

// serve carries both ways until the shell ends, the client goes, or it has to.
func (s *sitting) serve(ctx context.Context, evict context.CancelCauseFunc, since int64) {
	// The library closes a connection when a context ends that it reads or writes by: what is still to be said goes before.
	writing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	context.AfterFunc(ctx, func() { time.AfterFunc(leaveBound, giveUp) })
	missed, from := s.terminal.replay.follow(since)
	if len(missed) > 0 {
		frame := append(binary.BigEndian.AppendUint64([]byte{frameReplay}, uint64(from)), missed...)
		if s.send(writing, websocket.MessageBinary, frame) != nil {
			return
		}
	}
	if tell(writing, s.conn, serverFrame{Type: "connected", SessionID: s.terminal.id, Mode: s.mode}) != nil {
		return
	}
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	s.facade.running.Go(func() {
		defer close(ended)
		s.read(reading)
		evict(nil)
	})
	s.facade.running.Go(func() { s.ask(ctx, writing, evict) })
	context.AfterFunc(ctx, s.terminal.replay.wake)
	whole := s.show(ctx, writing)
	s.terminal.mu.Lock()
	s.me.leaving = true
	code := s.terminal.how.code
	s.terminal.mu.Unlock()
	switch cause := context.Cause(ctx); {
	case whole:
		_ = tell(writing, s.conn, serverFrame{Type: "exit", ExitCode: &code})
		_ = s.conn.Close(websocket.StatusNormalClosure, "process exited")
	case errors.Is(cause, errTakenOver):
		_ = s.conn.Close(closeTakenOver, "TAKEN_OVER")
	case errors.Is(cause, errSessionDeleted), errors.Is(cause, errAway):
		_ = s.conn.Close(websocket.StatusGoingAway, "SESSION_GONE")
	}
	stop()
	_ = s.conn.CloseNow() // it may be closed already
	<-ended
}

// show sends what the terminal shows, at the client's pace, and says whether that was all of it: the shell has ended.
func (s *sitting) show(ctx, writing context.Context) bool {
	buffer := make([]byte, 1+32<<10)
	for ctx.Err() == nil {
		piece, errors := s.terminal.replay.next(buffer[1:], func() bool {
			select {
			case <-s.over:
				return true
			default:
				return ctx.Err() != nil
			}
		})
		if piece == nil {
			break
		}
		if buffer[0] = frameOutput; errors {
			buffer[0] = frameErrors
		}
		if s.send(writing, websocket.MessageBinary, buffer[:1+len(piece)]) != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// send writes a frame within the time that a client has to take it.
func (s *sitting) send(ctx context.Context, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.facade.config.StallTimeout)
	defer cancel()
	return s.conn.Write(ctx, kind, data)
}

// tell writes a frame of text.
func tell(ctx context.Context, conn *websocket.Conn, frame serverFrame) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, inputBound)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, text)
}

// ask asks again and again whether the client is there.
func (s *sitting) ask(ctx, writing context.Context, evict context.CancelCauseFunc) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(writing, heartbeat)
		err := s.conn.Ping(bounded)
		cancel()
		if err != nil {
			evict(err)
			return
		}
	}
}

// read takes what the client says, until it goes.
func (s *sitting) read(ctx context.Context) {
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if len(data) > 0 && data[0] == frameInput {
				err = s.typed(data[1:])
			} else if len(data) > 0 {
				err = refusedFrame("a binary frame begins with 0")
			}
		} else {
			err = s.said(ctx, data)
		}
		var bad refusedFrame
		switch {
		case errors.As(err, &bad):
			_ = tell(ctx, s.conn, serverFrame{Type: "error", Code: "INVALID_FRAME", Error: string(bad)})
		case err != nil && !errors.Is(err, execd.ErrNoTerminal): // at the end of a shell some of what is typed meets nobody
			_ = tell(ctx, s.conn, serverFrame{Type: "error", Code: "STDIN_WRITE_FAILED", Error: err.Error()})
			return
		}
	}
}

// refusedFrame says what is wrong with a client's frame.
type refusedFrame string

func (r refusedFrame) Error() string { return string(r) }

// typed writes to the terminal.
func (s *sitting) typed(data []byte) error {
	if s.seat == nil {
		return nil
	}
	err := s.seat.Write(data, inputBound)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the program reads nothing of what is typed")
	}
	return err
}

// signals are those that a client may send by name.
var signals = map[string]syscall.Signal{
	"SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGTSTP": syscall.SIGTSTP,
	"SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP, "SIGKILL": syscall.SIGKILL,
}

// said does what a frame of text says.
func (s *sitting) said(ctx context.Context, data []byte) error {
	var frame clientFrame
	if json.Unmarshal(data, &frame) != nil {
		return refusedFrame("not the JSON of a frame")
	}
	switch frame.Type {
	case "stdin":
		return s.typed([]byte(frame.Data))
	case "ping":
		return tell(ctx, s.conn, serverFrame{Type: "pong"})
	case "resize":
		if frame.Cols < 1 || frame.Cols > 1<<15 || frame.Rows < 1 || frame.Rows > 1<<15 {
			return refusedFrame("resize: want cols and rows in 1..32768")
		}
		if s.seat != nil {
			return s.seat.Resize(uint16(frame.Cols), uint16(frame.Rows))
		}
	case "signal":
		signal, known := signals[frame.Signal]
		if !known {
			return refusedFrame("signal: want SIGINT, SIGQUIT, SIGTSTP, SIGTERM, SIGHUP or SIGKILL")
		}
		if s.seat != nil {
			return s.seat.Signal(signal)
		}
	default:
		return refusedFrame("type: want stdin, signal, resize or ping")
	}
	return nil
}
