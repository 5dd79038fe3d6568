package opensandbox

import (
	"slices"
)

// execdRoutes is execd's API. What names files is in files_routes.go.
func (f *Facade) execdRoutes() []route {
	return slices.Concat([]route{
		{"GET", "/ping", f.ping},
		{"POST", "/command", f.postCommand},
		{"DELETE", "/command", f.deleteCommand},
		{"GET", "/command/status/{id}", f.getCommandStatus},
		{"GET", "/command/{id}/logs", f.getCommandLogs},
		{"POST", "/session", f.postSession},
		{"POST", "/session/{id}/run", f.runSession},
		{"DELETE", "/session/{id}", f.deleteSession},
		{"GET", "/metrics", f.getMetrics},
		{"GET", "/metrics/watch", f.watchMetrics},
	}, f.codeRoutes(), f.isolatedRoutes(), f.filesRoutes(), f.terminalRoutes())
}

// ping says that commands, files and the network policy work: the sandbox is there, and holds.
func (f *Facade) ping(x *exchange) error {
	if err := f.lives(x.box); err != nil {
		return err
	}
	x.empty()
	return nil
}
