package opensandbox

import (
	"math"
	"net/http"
	"strconv"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// makeDirectories makes directories, and those above them. One that is there stays as it is.
func (f *Facade) makeDirectories(x *exchange, s site) error {
	orders, err := x.attributed(s, file.Order{Operation: file.Make, Parents: true}, wireAttributes.sparing)
	if err != nil {
		return err
	}
	return f.carryOut(x, s, policy.FileWrite, orders)
}

// deleteDirectories takes directories away, with all that is in them.
func (f *Facade) deleteDirectories(x *exchange, s site) error { return f.deleteAll(x, s, file.Remove) }

// listDirectory lists what lies beneath a directory, so many levels deep.
func (f *Facade) listDirectory(x *exchange, s site) error {
	depth := int64(1)
	if text := x.r.URL.Query().Get("depth"); text != "" {
		var err error
		if depth, err = strconv.ParseInt(text, 10, 64); err != nil || depth < 0 {
			return faultf(http.StatusBadRequest, execdBody, "depth: %.40q: want a number of levels, 0 or more", text)
		}
	}
	return f.entries(x, s, file.Order{Operation: file.Tree, Depth: int(min(depth, math.MaxInt32))})
}
