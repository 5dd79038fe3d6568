package opensandbox

import (
	"net/http"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// idle are entrypoints that only keep a container from ending. A sandbox needs none for that, and nobody can tell whether one runs.
var idle = [][]string{{"tail", "-f", "/dev/null"}, {"sleep", "infinity"}}

// enter runs the entrypoint of a sandbox that was just made, as a command in the background that nobody asks about. One that can't be executed, or that policy
// refuses, is a no to the create.
func (f *Facade) enter(box *sandbox) error {
	if slices.ContainsFunc(idle, func(argv []string) bool { return slices.Equal(argv, box.entrypoint) }) {
		return nil
	}
	log, err := newOutputLog(f.config.Dir, f.config.LogBytes)
	if err != nil {
		return err
	}
	j := job{content: quoted(box.entrypoint), request: f.request(box, box.entrypoint, "", 0, nil)}
	leave, err := f.service.Admit(box.life)
	if err != nil {
		log.close()
		return err
	}
	box.entered = log
	c := box.commands.begin(j.content, log)
	accepted, ended := make(chan struct{}), make(chan execd.Reply, 1)
	f.running.Go(func() {
		defer leave()
		reply := f.walk(box.life, j, c, log, func() { close(accepted) })
		log.end()
		box.commands.end(c, endingOf(reply, false))
		ended <- reply
	})
	select {
	case <-accepted:
		return nil
	case <-time.After(entrypointBound):
		return nil // it waits for its turn
	case reply := <-ended:
		select {
		case <-accepted:
			return nil
		default:
		}
		how := endingOf(reply, false)
		if reply.Outcome == execd.OutcomeDenied {
			return faultf(http.StatusForbidden, codeDenied, "%s", how.trace)
		}
		return bad("entrypoint", "%s", how.trace)
	}
}

// entrypointBound is how long a create waits for its entrypoint to start.
const entrypointBound = 15 * time.Second
