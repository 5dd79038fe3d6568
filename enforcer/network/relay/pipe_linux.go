package relay

import "golang.org/x/sys/unix"

// pipe is what splice(2) moves bytes through: from a socket into it and out of it into another, without a copy to user space.
type pipe struct {
	r, w int
	size int
}

const (
	// pipeSize is a compromise: a larger pipe moves more a call, and all pipes together stay within /proc/sys/fs/pipe-user-pages-soft (16,384 pages),
	// behind which an ordinary user's pipes shrink to one page.
	pipeSize = 256 << 10
	// onesShare is the part of all pipes that one server may have: a sandbox whose clients or servers don't read must not leave others without.
	onesShare = 4
	// keptPipes wait for the next who needs one: a stream takes and gives one back at each pause, and making one costs more than a pause.
	keptPipes = 64
)

// takePipe is an empty pipe, or nil: then bytes are copied.
func (s *Server) takePipe() *pipe {
	if s.pipes.Add(1) <= int64(s.config.Capacity.mostPipes/onesShare) {
		if p := s.config.Capacity.pipe(); p != nil {
			return p
		}
	}
	s.pipes.Add(-1)
	return nil
}

// givePipe takes it back.
func (s *Server) givePipe(p *pipe, empty bool) {
	s.pipes.Add(-1)
	if empty {
		s.config.Capacity.keep(p)
	} else {
		s.config.Capacity.drop(p)
	}
}

func (c *Capacity) pipe() *pipe {
	c.mu.Lock()
	if n := len(c.pipes); n > 0 {
		p := c.pipes[n-1]
		c.pipes = c.pipes[:n-1]
		c.mu.Unlock()
		return p
	}
	if c.made >= c.mostPipes {
		c.mu.Unlock()
		return nil
	}
	c.made++
	c.mu.Unlock()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		c.mu.Lock()
		c.made--
		c.mu.Unlock()
		return nil
	}
	p := &pipe{r: ends[0], w: ends[1]}
	size, err := unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, pipeSize)
	if err != nil {
		size, err = unix.FcntlInt(uintptr(p.w), unix.F_GETPIPE_SZ, 0)
	}
	if err != nil {
		c.drop(p)
		return nil
	}
	p.size = size
	return p
}

// keep takes an empty pipe back.
func (c *Capacity) keep(p *pipe) {
	c.mu.Lock()
	if len(c.pipes) < keptPipes {
		c.pipes = append(c.pipes, p)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.drop(p)
}

// drop closes a pipe that has bytes in it, or one too many.
func (c *Capacity) drop(p *pipe) {
	unix.Close(p.r)
	unix.Close(p.w)
	c.mu.Lock()
	c.made--
	c.mu.Unlock()
}

// Close closes pipes that aren't in use.
func (c *Capacity) Close() {
	c.mu.Lock()
	pipes := c.pipes
	c.pipes = nil
	c.mu.Unlock()
	for _, p := range pipes {
		c.drop(p)
	}
}
