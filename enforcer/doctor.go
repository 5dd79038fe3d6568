package enforcer

// Mechanism is one thing that a host may have, for a person to read.
type Mechanism struct {
	Name     string `json:"name"`
	Have     bool   `json:"have"`
	Detail   string `json:"detail"`
	HowToGet string `json:"howToGet,omitempty"`
}

// Doctor lists every mechanism of this host.
func (h Host) Doctor() []Mechanism { return nil }
