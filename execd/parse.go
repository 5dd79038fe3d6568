package execd

import (
	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// ParseExec is [policy.ParseExec], and refuses a network spec that can't be enforced ([network.Check]), so that the answer names the field before
// anything is decided or runs. So do the others here.
func ParseExec(data []byte) (policy.Request, policy.ExecOptions, error) {
	request, options, err := policy.ParseExec(data)
	return request, options, orCheck(err, request.Network)
}

// ParseRun is [policy.ParseRun].
func ParseRun(data []byte) (policy.Request, policy.ExecOptions, error) {
	request, options, err := policy.ParseRun(data)
	return request, options, orCheck(err, request.Network)
}

// ParseDecide is [policy.ParseDecide].
func ParseDecide(data []byte) (policy.Request, error) {
	request, err := policy.ParseDecide(data)
	return request, orCheck(err, request.Network)
}

// ParseSandbox is [policy.ParseSandbox].
func ParseSandbox(data []byte) (policy.Request, error) {
	request, err := policy.ParseSandbox(data)
	return request, orCheck(err, request.Network)
}

// ParseNetworkChange is [policy.ParseNetworkChange].
func ParseNetworkChange(sandbox string, data []byte) (policy.Request, error) {
	request, err := policy.ParseNetworkChange(sandbox, data)
	return request, orCheck(err, request.Network)
}

// ParseNetwork is [policy.ParseNetwork].
func ParseNetwork(data []byte) (policy.NetworkSpec, error) {
	spec, err := policy.ParseNetwork(data)
	return spec, orCheck(err, spec)
}

func orCheck(err error, spec policy.NetworkSpec) error {
	if err != nil {
		return err
	}
	return network.Check(spec)
}
