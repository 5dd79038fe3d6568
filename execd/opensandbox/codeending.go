package opensandbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// cellEnding is how a cell ended, as clients are told. Without a name it is a success.
type cellEnding struct {
	name, value string
	traceback   []string
	// line goes to stderr before, where the cell itself couldn't say.
	line     string
	duration time.Duration
}

// The names of errors that aren't exceptions of the code.
const (
	nameCellTimeout = "CellTimeout"
	nameEnded       = "InterpreterEnded"
)

// cellEndingOf reads the reply to a cell.
func cellEndingOf(r execd.CellReply) cellEnding {
	e := cellEnding{duration: time.Duration(r.DurationSeconds * float64(time.Second))}
	switch {
	case r.Outcome == execd.OutcomeOK:
		return e
	case r.Outcome == execd.OutcomeTimeout:
		e.name, e.value = nameCellTimeout, r.Message
		if r.Error != nil {
			e.traceback = r.Error.Traceback
		}
	case r.Error != nil:
		e.name, e.value, e.traceback = r.Error.Name, r.Error.Value, r.Error.Traceback
	case r.Outcome == execd.OutcomeDenied:
		e.name, e.value = nameRefused, reasonsText(r.Reasons)
		e.line = "refused: " + e.value
	case r.Gone:
		how := endingOf(r.End, false)
		e.name, e.value = nameEnded, how.trace // its last words are on stderr already
		if r.End.Outcome == execd.OutcomeCancelled {
			e.value = r.Message
		}
	default:
		e.name, e.value = nameRefused, string(r.Outcome)+": "+r.Message
		e.line = e.value
	}
	if r.Gone {
		e.value += "; the context is gone with all that it had"
	}
	if e.name == "" {
		e.name = "Error" // a client drops an error without one
	}
	if len(e.traceback) == 0 {
		e.traceback = []string{e.name + ": " + e.value}
	}
	return e.bounded()
}

// What an interpreter says of an exception is no more than one event of it.
const (
	mostTraceback = 256 << 10
	mostName      = 16 << 10
)

// bounded cuts what is too long. The end of a traceback says most.
func (e cellEnding) bounded() cellEnding {
	e.name, e.value = strings.ToValidUTF8(e.name[:min(len(e.name), mostName)], ""), strings.ToValidUTF8(e.value[:min(len(e.value), mostName)], "")
	room, first := mostTraceback, len(e.traceback)
	for first > 0 && room >= len(e.traceback[first-1])+1 {
		first--
		room -= len(e.traceback[first]) + 1
	}
	if first > 0 {
		e.traceback = append([]string{fmt.Sprintf("… (%d lines more)", first)}, e.traceback[first:]...)
	}
	return e
}
