package opensandbox

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// command is one command of a sandbox, from before its first event until enough others have ended after it.
type command struct {
	id, content string
	background  bool
	started     time.Time
	// stop is closed when somebody wants its end.
	stop     chan struct{}
	stopOnce sync.Once
	// log has the output of one in the background; nil of another.
	log *outputLog

	mu sync.Mutex // guards what follows
	// ended is when it had; how says how. left says that something of it lives on.
	ended time.Time
	how   ending
	left  bool
}

// interrupt asks for the end of it, and of what it has left behind; false: nothing of it was left when it ended.
func (c *command) interrupt() bool {
	c.mu.Lock()
	there := c.ended.IsZero() || c.left
	c.left = false
	c.mu.Unlock()
	if there {
		c.stopOnce.Do(func() { close(c.stop) })
	}
	return there
}

func (c *command) interrupted() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// end makes its ending known.
func (c *command) end(how ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.how, c.left = time.Now(), how, how.left
}

// commands are those of one sandbox.
type commands struct {
	most int
	// events hears of those that were refused.
	events *events

	mu   sync.Mutex // guards what follows
	all  map[string]*command
	past []string // ids of those that have ended, oldest first
}

func newCommands(most int, events *events) *commands {
	return &commands{most: most, events: events, all: map[string]*command{}}
}

// newID is 16 random bytes in hex.
func newID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// begin makes a command known.
func (s *commands) begin(content string, log *outputLog) *command {
	c := &command{id: newID(), content: content, background: log != nil, started: time.Now(), stop: make(chan struct{}), log: log}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[c.id] = c
	return c
}

// end makes the ending of one known, and forgets the one that ended first when there are too many.
func (s *commands) end(c *command, how ending) {
	c.end(how)
	if how.name == nameRefused {
		s.events.now("command %s %s", c.id, how.trace)
	}
	s.mu.Lock()
	var old *command
	if s.past = append(s.past, c.id); len(s.past) > s.most {
		old = s.all[s.past[0]]
		delete(s.all, s.past[0])
		s.past = s.past[1:]
	}
	s.mu.Unlock()
	if old != nil && old.log != nil {
		old.log.close()
	}
}

// forget takes away one that never began.
func (s *commands) forget(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c.id)
}

func (s *commands) find(id string) *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// close gives up the logs of all.
func (s *commands) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if c.log != nil {
			c.log.close()
		}
	}
}
