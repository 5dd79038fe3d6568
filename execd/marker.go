package execd

import "github.com/sandboxd/sandboxd/runner"

func (w *walk) takeMarker(reply *Reply, exit runner.Exit) {}
