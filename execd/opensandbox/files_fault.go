package opensandbox

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/runner/file"
)

// The codes of the calls that name files.
const (
	execdNoFile   = "FILE_NOT_FOUND"
	execdFile     = "INVALID_FILE"
	execdContent  = "INVALID_FILE_CONTENT"
	execdMetadata = "INVALID_FILE_METADATA"
)

// fileFault is the answer to an operation that came to nothing. What a caller can mend is a 400 or a 404, permission included: clients give up at anything
// else.
func (x *exchange) fileFault(err error, o file.Order) error {
	var e *execd.Error
	if !errors.As(err, &e) {
		return err
	}
	about := o.Path
	if o.To != "" {
		about += " to " + o.To
	}
	message := fmt.Sprintf("%.500q: %s", about, e.Message)
	switch e.Code {
	case "NOT_FOUND":
		if o.Operation == file.Write || o.Operation == file.Make { // what is missing is on the way, behind a link
			return &fault{execdFile, message, http.StatusBadRequest}
		}
		return &fault{execdNoFile, message, http.StatusNotFound}
	case "NOT_A_FILE", "NOT_A_DIRECTORY", "LINK", "OUTSIDE", "HARD_LINK", "BAD_NAME", "FORBIDDEN", "READ_ONLY", "CHANGED", "NO_SPACE", "NO_INODES", "QUOTA",
		"TOO_LARGE", "EXISTS":
		return &fault{execdFile, message, http.StatusBadRequest}
	case "INCOMPLETE":
		return &fault{execdContent, message, http.StatusBadRequest}
	case "OWNER", "PATTERN":
		return &fault{execdMetadata, message, http.StatusBadRequest}
	case "DENIED":
		return &fault{codeDenied, fmt.Sprintf("%.500q: %s", about, reasonsText(e.Reasons)), http.StatusBadRequest}
	case "RANGE":
		x.w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", e.Size))
		return &fault{execdFile, message, http.StatusRequestedRangeNotSatisfiable}
	case "BUSY", "NOT_READY":
		return err
	}
	return &fault{execdRuntime, message, http.StatusInternalServerError}
}

// isMissing says of an answer that it is about a file that isn't there.
func isMissing(err error) bool {
	var known *fault
	return errors.As(err, &known) && known.Code == execdNoFile
}
