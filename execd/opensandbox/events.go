package opensandbox

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// events are what has happened to a sandbox as its owner may know it, the newest of it. The audit log has all, for who runs the server.
type events struct {
	mu    sync.Mutex // guards what follows
	lines []string
	// lost counts those that gave way to newer ones.
	lost int
}

// The most events that are kept of a sandbox, and the longest.
const (
	mostEvents  = 200
	longestLine = 1000
)

// add keeps one, in one line.
func (e *events) add(at time.Time, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	if len(text) > longestLine {
		text = strings.ToValidUTF8(text[:longestLine], "") + "…"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, at.UTC().Format(time.RFC3339Nano)+" "+text)
	if over := len(e.lines) - mostEvents; over > 0 {
		e.lines, e.lost = append([]string(nil), e.lines[over:]...), e.lost+over
	}
}

// now is add of what has just happened.
func (e *events) now(format string, args ...any) { e.add(time.Now(), format, args...) }

// text is the newest of them, at most so many, and whether there were more.
func (e *events) text(most int) (text string, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := e.lines
	if more = e.lost > 0 || len(lines) > most; len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	if len(lines) == 0 {
		return "", more
	}
	return strings.Join(lines, "\n") + "\n", more
}
