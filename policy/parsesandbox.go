package policy

// A sandbox that is made has an image and a network of its own. Of the security context only what its root is made with can be said of it; all else is
// each exec's.
type wireSandbox struct {
	Image           *string          `json:"image"`
	SecurityContext *SecurityContext `json:"securityContext"`
	Network         *wireNetwork     `json:"network"`
}

// ParseSandbox reads the body of POST /v1/sandboxes; no bytes are {}. The error is a *FieldError.
func ParseSandbox(data []byte) (Request, error) {
	request := Request{Action: ActionSandbox}
	if len(data) == 0 {
		return request, nil
	}
	var wire wireSandbox
	if fault := decode(data, &wire, ""); fault != nil {
		return Request{}, fault
	}
	var fault *FieldError
	if request.Image, fault = writtenImage(wire.Image); fault != nil {
		return Request{}, fault
	}
	if c := wire.SecurityContext; c != nil {
		rest := *c
		rest.ReadOnlyRootFilesystem = nil
		if Digest(rest) != Digest(SecurityContext{}) {
			return Request{}, faultf("securityContext", "only readOnlyRootFilesystem is a sandbox's; the rest is said with each exec")
		}
		request.SecurityContext = *c
	}
	if wire.Network == nil {
		return request, nil
	}
	if request.Network, fault = wire.Network.spec("network"); fault != nil {
		return Request{}, fault
	}
	return request, nil
}

// ParseNetworkChange reads the body of PUT /v1/network, a network spec, as a request for that sandbox. The error is a *FieldError.
func ParseNetworkChange(sandbox string, data []byte) (Request, error) {
	if sandbox == "" {
		return Request{}, faultf("sandbox", "missing: a network is a sandbox's")
	}
	if fault := checkSandbox("sandbox", sandbox); fault != nil {
		return Request{}, fault
	}
	spec, err := ParseNetwork(data)
	if err != nil {
		return Request{}, err
	}
	return Request{Action: ActionNetwork, Sandbox: sandbox, Network: spec}, nil
}
