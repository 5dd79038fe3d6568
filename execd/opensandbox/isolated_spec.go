package opensandbox

import (
	"encoding/json/jsontext"
	"net/http"
	"path"
	"slices"
	"strings"
)

// wireIsolated is what an isolated session was made with; answers echo it.
type wireIsolated struct {
	Workspace     *wireWorkspace   `json:"workspace,omitzero"`
	Overlays      []wireOverlay    `json:"overlays,omitempty"`
	Profile       string           `json:"profile,omitempty"`
	ExtraWritable []string         `json:"extra_writable,omitempty"`
	Binds         []jsontext.Value `json:"binds,omitempty"`
	ShareNet      *bool            `json:"share_net,omitzero"`
	Passthrough   *wirePassthrough `json:"env_passthrough,omitzero"`
	UID           *int64           `json:"uid,omitzero"`
	GID           *int64           `json:"gid,omitzero"`
	UIDMode       string           `json:"uid_mode,omitempty"`
	IdleSeconds   int64            `json:"idle_timeout_seconds,omitzero"`
}

type wireWorkspace struct {
	Path string `json:"path"`
	Mode string `json:"mode,omitempty"`
}

type wireOverlay struct {
	Path    string `json:"path"`
	Mode    string `json:"mode,omitempty"`
	Persist *bool  `json:"persist,omitzero"`
}

type wirePassthrough struct {
	Mode string   `json:"mode"`
	Keys []string `json:"keys"`
}

// The modes of a workspace.
const (
	modeReadWrite = "rw"
	modeReadOnly  = "ro"
	modeOverlay   = "overlay"
)

// refuse is an option that can't be kept here.
func refuse(field, why string) error {
	return faultf(http.StatusBadRequest, execdLacks, "%s: %s", field, why)
}

// check refuses what can't be kept, and gives the one directory that the session is about.
func (w *wireIsolated) check() (wireWorkspace, error) {
	var at []wireWorkspace
	if w.Workspace != nil {
		at = append(at, *w.Workspace)
	}
	for _, overlay := range w.Overlays {
		if overlay.Persist != nil && *overlay.Persist {
			return wireWorkspace{}, refuse("overlays.persist", "what an overlay takes ends with its session; copy it out before")
		}
		at = append(at, wireWorkspace{overlay.Path, overlay.Mode})
	}
	switch {
	case len(at) == 0:
		return wireWorkspace{}, badBody("workspace", "want a workspace, or overlays")
	case len(at) > 1:
		return wireWorkspace{}, refuse("overlays", "one directory a session is served")
	case w.Profile != "" && w.Profile != "strict" && w.Profile != "balanced":
		return wireWorkspace{}, badBody("profile", "%.40q: want strict or balanced", w.Profile)
	case len(w.Binds) > 0:
		return wireWorkspace{}, refuse("binds", "not served: a session sees what its sandbox sees")
	case w.UIDMode != "" && w.UIDMode != "setpriv":
		return wireWorkspace{}, refuse("uid_mode", "setpriv is served: ids change, and are read back, before a command's first instruction")
	case w.GID != nil && w.UID == nil:
		return wireWorkspace{}, badBody("gid", "uid is missing")
	case w.IdleSeconds < 0:
		return wireWorkspace{}, badBody("idle_timeout_seconds", "%d: want 0, which is none, or more", w.IdleSeconds)
	case w.Passthrough != nil && w.Passthrough.Mode != "allow" && w.Passthrough.Mode != "deny":
		return wireWorkspace{}, badBody("env_passthrough.mode", "%.40q: want allow or deny", w.Passthrough.Mode)
	}
	space := at[0]
	if space.Mode == "" {
		space.Mode = modeReadWrite
	}
	switch {
	case !path.IsAbs(space.Path):
		return space, badBody("workspace.path", "%.200q: want an absolute path", space.Path)
	case space.Mode != modeReadWrite && space.Mode != modeReadOnly && space.Mode != modeOverlay:
		return space, badBody("workspace.mode", "%.40q: want rw, ro or overlay", space.Mode)
	case space.Mode == modeOverlay && !beneath(space.Path, home):
		return space, refuse("workspace.path", "an overlay is of "+home+" as a whole; want a directory beneath it")
	case space.Mode == modeReadOnly && len(w.ExtraWritable) > 0:
		return space, refuse("extra_writable", "a read-only session writes nowhere")
	}
	for _, extra := range w.ExtraWritable {
		if !beneath(extra, "/work") && !beneath(extra, "/tmp") {
			return space, refuse("extra_writable", extra+": a sandbox writes beneath /work and /tmp")
		}
	}
	return space, nil
}

func beneath(name, directory string) bool {
	name = path.Clean(name)
	return name == directory || strings.HasPrefix(name, directory+"/")
}

// passed are the sandbox's own variables that a session lets through. Those that every command has anyway are no variables of the sandbox's.
func (p *wirePassthrough) passed(env map[string]string) map[string]string {
	if p == nil {
		return env
	}
	through := map[string]string{}
	for name, value := range env {
		if slices.Contains(p.Keys, name) == (p.Mode == "allow") {
			through[name] = value
		}
	}
	return through
}
