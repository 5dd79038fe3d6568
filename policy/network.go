package policy

// NetworkSpec says where a sandbox may connect to. The first rule that matches wins, then DefaultAction. The zero value allows nothing.
type NetworkSpec struct {
	// DefaultAction is "deny" or "allow"; empty means deny.
	DefaultAction string       `json:"defaultAction,omitempty"`
	Egress        []EgressRule `json:"egress,omitempty"`
}

// EgressRule allows or denies one target.
type EgressRule struct {
	// Action is "allow" or "deny".
	Action string `json:"action"`
	// Target is a name, "*.name" (one or more labels, never the apex), an IP address or a prefix.
	Target string `json:"target"`
	// Ports are TCP ports, 1..65535; none means all.
	Ports []int `json:"ports,omitempty"`
}

// The actions of a rule.
const (
	NetworkDeny  = "deny"
	NetworkAllow = "allow"
)

// DenyAll says whether the spec lets nothing out.
func (s NetworkSpec) DenyAll() bool {
	if s.DefaultAction == NetworkAllow {
		return false
	}
	for _, rule := range s.Egress {
		if rule.Action == NetworkAllow {
			return false
		}
	}
	return true
}
