package relay

// answer is the server's first answer, after a request that may switch the protocol.
type answer struct {
	seen    int
	decided chan bool
}

func newAnswer() *answer { return &answer{decided: make(chan bool, 1)} }

const switching = "HTTP/1.1 101 "

// hear looks at what the server says, where that decides how the client may go on.
func (c *conn) hear(b []byte) {
	a := c.answer.Load()
	if a == nil {
		return
	}
	n := min(len(b), len(switching)-a.seen)
	same := string(b[:n]) == switching[a.seen:a.seen+n]
	a.seen += n
	if same && a.seen < len(switching) {
		return
	}
	c.answer.Store(nil)
	a.decided <- same
}

// switched waits for the server's answer and says whether it is 101.
func (c *conn) switched(a *answer) bool {
	select {
	case switched := <-a.decided:
		return switched
	case <-c.heard:
		return false
	}
}
