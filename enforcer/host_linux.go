package enforcer

import "errors"

// HostConfig says what to look for on the host.
type HostConfig struct {
	// Show are the paths that sandboxes may show.
	Show []string
}

// ProbeHost asks this kernel what it can do, by trying.
func ProbeHost(c HostConfig) (Host, error) { return Host{}, errors.ErrUnsupported }
