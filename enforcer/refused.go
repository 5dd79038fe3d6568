package enforcer

// RefusedError says that a decision can't be enforced here. Nothing is started.
type RefusedError struct {
	// Field is the field of the request that asks for it, such as "limits.memoryBytes".
	Field string `json:"field"`
	// Lack is the name by which policy may accept that it is missing, such as "cgroup.memory"; empty: it can't be accepted.
	Lack string `json:"lack,omitempty"`
	// Message says what can't be held, HowTo how to get it or what to ask for instead.
	Message string `json:"message"`
	HowTo   string `json:"howTo"`
}

func (e *RefusedError) Error() string {
	text := e.Field + ": " + e.Message
	if e.HowTo != "" {
		text += "; " + e.HowTo
	}
	return text
}
