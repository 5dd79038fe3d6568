package execd

import "fmt"

// What this daemon has open, at most: for a sandbox its fence's sockets, those that are served once more, its launcher's socket and pidfd, its groups, and
// a worker's socket and pidfd; for an exec its streams, its gate and pidfd, and a worker more; and what is open from start to end.
const (
	sandboxDescriptors = 32
	execDescriptors    = 16
	ownDescriptors     = 64
)

// checkDescriptors refuses a configuration for which this process may not open enough files. limit is RLIMIT_NOFILE's hard value, to which the runtime raises
// the soft one; negative is no limit. Connections aren't counted: one that can't be accepted waits.
func (c Config) checkDescriptors(limit int64) error {
	sandboxes := int64(c.Pool + c.MaxRunning + c.MaxSandboxes)
	need := sandboxes*sandboxDescriptors + int64(c.MaxRunning)*execDescriptors + ownDescriptors
	if limit < 0 || need <= limit {
		return nil
	}
	return fmt.Errorf("config: Pool %d, MaxRunning %d, MaxSandboxes %d: up to %d sandboxes take %d descriptors, and RLIMIT_NOFILE is %d: raise it "+
		"(ulimit -Hn, LimitNOFILE=), or lower these", c.Pool, c.MaxRunning, c.MaxSandboxes, sandboxes, need, limit)
}
