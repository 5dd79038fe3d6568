package relay

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrDescriptors is that the process may not open as many descriptors as its connections need.
var ErrDescriptors = errors.New("relay: too few descriptors")

const (
	// reserved descriptors are for everything else in the process: a quarter of all, or these.
	reserved = 512
	// mostPipes bounds the pipes in use, of two descriptors each: an eighth of all, or these. What finds none is copied.
	mostPipes = 256
	// each connection has two sockets.
	perConnection = 2
)

// Capacity is what all servers of a process share: how many connections they carry, and the pipes that bytes move through.
type Capacity struct {
	most int64
	used atomic.Int64

	mu        sync.Mutex
	pipes     []*pipe // not in use
	made      int
	mostPipes int
}

// NewCapacity is for so many connections in all, 0 for as many as fit. It is ErrDescriptors when RLIMIT_NOFILE has no room for them: running out later
// would refuse what policy allows, and starve the daemon with it.
func NewCapacity(connections int) (*Capacity, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("relay: RLIMIT_NOFILE: %w", err)
	}
	return capacityFor(connections, limit.Cur)
}

func capacityFor(connections int, descriptors uint64) (*Capacity, error) {
	all := int(min(descriptors, 1<<30)) // RLIM_INFINITY
	pipes := min(all/16, mostPipes)
	rest := min(all/4, reserved) + 2*pipes
	fit := (all - rest) / perConnection
	if connections == 0 {
		connections = fit
	}
	if fit < 1 || connections > fit {
		return nil, fmt.Errorf("%w: RLIMIT_NOFILE is %d, %d connections need %d; raise it (LimitNOFILE=, ulimit -n) or lower the number of connections",
			ErrDescriptors, all, connections, max(connections, 1)*perConnection+rest)
	}
	return &Capacity{most: int64(connections), mostPipes: pipes}, nil
}

// Connections is how many there is room for.
func (c *Capacity) Connections() int { return int(c.most) }

func (c *Capacity) take() bool {
	if c.used.Add(1) > c.most {
		c.used.Add(-1)
		return false
	}
	return true
}

func (c *Capacity) give() { c.used.Add(-1) }
