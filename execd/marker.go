package execd

import (
	"bytes"
	"encoding/json/jsontext"

	"github.com/sandboxd/sandboxd/execd/datarobot"
	"github.com/sandboxd/sandboxd/runner"
)

// takeMarker takes the last result marker line out of stdout. A marker that the output limit may have cut is none that can be trusted, and the
// reply says so.
func takeMarker(reply *Reply, exit runner.Exit) {
	clean, value, found, err := datarobot.ParseMarker(exit.Stdout.Data)
	reply.ReturnValue, reply.ReturnValueHow = jsontext.Value("null"), "none"
	switch {
	case exit.Stdout.Truncated && endsInMarker(exit.Stdout.Data):
		found = false // what is left of a value may be a value too: 12 of 1234
	case err != nil:
		reply.ReturnValueReason = sentence(err)
	case found:
		reply.ReturnValue, reply.ReturnValueHow = value, "marker"
	}
	if found {
		reply.Stdout, reply.StdoutBase64 = asText(clean, exit.Stdout.Truncated)
	}
	if exit.Stdout.Truncated {
		reply.ReturnValueReason = "stdout was cut at its limit: there may have been another marker after the cut"
	}
}

// endsInMarker says whether the last line, which has no end, is a marker's.
func endsInMarker(stdout []byte) bool {
	return bytes.HasPrefix(stdout[bytes.LastIndexAny(stdout, "\r\n")+1:], []byte(datarobot.Marker))
}
