package execd

import (
	"net"

	"github.com/sandboxd/sandboxd/policy"
)

// DialSandbox connects to a TCP port of a sandbox of this caller, on its loopback. The other way round nothing changes: what the sandbox may reach is its
// network's to say. The connection ends with the sandbox.
func (s *Service) DialSandbox(id string, caller policy.Caller, port uint16) (net.Conn, error) {
	box, err := s.sandboxes.join(id, caller)
	if err != nil {
		return nil, err
	}
	defer s.sandboxes.putBack(box)
	return box.Dial(port)
}
