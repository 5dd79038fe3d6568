package opensandbox

import (
	"net/http"
	"strconv"
)

// The ports at which clients look for execd and for the egress API. Nothing in a sandbox can be reached at these.
const (
	portExecd  = 44772
	portEgress = 18080
)

// endpoint answers a request to a port of a sandbox. Its token opens it, and nothing else: the id is no secret, and an owner's key is for the lifecycle API.
func (f *Facade) endpoint(x *exchange, id, port, path string) error {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return faultf(http.StatusNotFound, codeNotFound, "there is no such port")
	}
	f.mu.Lock()
	box := f.sandboxes[id]
	f.mu.Unlock()
	header := headerExecd
	if number == portEgress {
		header = headerEgress
	}
	var opens token
	if box != nil {
		if opens = box.execdToken; number == portEgress {
			opens = box.egressToken
		}
	}
	// The same answer for a sandbox that isn't there: who has no token learns nothing.
	if !opens.in(x.r.Header, header) || box == nil {
		return faultf(http.StatusUnauthorized, "UNAUTHORIZED", "this endpoint wants its sandbox's token in the header %s", header)
	}
	x.box, x.caller = box, box.caller
	switch number {
	case portExecd:
		return f.dispatch(x, f.execd, path, "NOT_FOUND")
	case portEgress:
		return f.dispatch(x, f.egress, path, "NOT_FOUND") // its errors are JSON as everywhere: the clients that take them for text show them as they are
	}
	return f.proxy(x, uint16(number), path)
}
