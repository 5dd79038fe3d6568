package policy

// Caller is who asks: the peer credentials of the socket (SO_PEERCRED), the owner of the token that came over TCP, or this process when there is
// no daemon.
type Caller struct {
	// UID and GID are the peer's effective ids in the daemon's user namespace.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// PID is 0 when the peer lives in a PID namespace that the daemon can't see into, or came with a token.
	PID int `json:"pid"`
	// Via is how the caller came: "socket", "token", "opensandbox", "agent-sandbox" or "cli".
	Via string `json:"via"`
	// Name tells those apart who came by keys of one file: that of the key. Empty elsewhere.
	Name string `json:"name,omitzero"`
}

// ParseCaller reads a caller alone, for judging offline; what is left out is 0 and "cli". The error is a *FieldError. No caller of a service comes
// this way: those the kernel names.
func ParseCaller(data []byte) (Caller, error) {
	caller := Caller{Via: "cli"}
	if fault := decode(data, &caller, "caller"); fault != nil {
		return Caller{}, fault
	}
	for _, id := range []struct {
		name  string
		value int
	}{{"uid", caller.UID}, {"gid", caller.GID}, {"pid", caller.PID}} {
		if id.value < 0 {
			return Caller{}, faultf(member("caller", id.name), "%d, want 0 or more", id.value)
		}
	}
	return caller, nil
}
