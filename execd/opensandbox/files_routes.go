package opensandbox

import (
	"net/http"
	"strconv"

	"github.com/sandboxd/sandboxd/policy"
)

// fileCall is one of the calls that name files; where says whose files they are.
type fileCall struct {
	method, path string
	handle       func(*exchange, site) error
}

func (f *Facade) fileCalls() []fileCall {
	return []fileCall{
		{"GET", "/files/download", f.download},
		{"POST", "/files/upload", f.upload},
		{"GET", "/files/info", f.getInfo},
		{"GET", "/files/search", f.search},
		{"POST", "/files/mv", f.moveFiles},
		{"POST", "/files/permissions", f.setPermissions},
		{"POST", "/files/replace", f.replaceTexts},
		{"DELETE", "/files", f.deleteFiles},
		{"GET", "/directories/list", f.listDirectory},
		{"POST", "/directories", f.makeDirectories},
		{"DELETE", "/directories", f.deleteDirectories},
	}
}

// filesRoutes are the calls that name files and directories: of the sandbox, of it as another user, and of an isolated session.
func (f *Facade) filesRoutes() []route {
	var routes []route
	for _, where := range []struct {
		prefix string
		site   func(*exchange) (site, error)
	}{
		{"", ofSandbox}, {"/v1/filesystem/{uid}/{gid}", ofUser}, {"/v1/isolated/session/{id}", f.ofSession},
	} {
		for _, call := range f.fileCalls() {
			routes = append(routes, route{call.method, where.prefix + call.path, func(x *exchange) error {
				if err := f.lives(x.box); err != nil {
					return err
				}
				s, err := where.site(x)
				if err != nil {
					return err
				}
				return call.handle(x, s)
			}})
		}
	}
	return routes
}

// site is whose files a call means: where relative paths begin, and as whom it acts.
type site struct {
	box *sandbox
	// inner is execd's sandbox that has them; empty: box's own.
	inner    string
	base     string
	context  policy.SecurityContext
	readOnly bool
}

func ofSandbox(x *exchange) (site, error) {
	return site{box: x.box, base: home, context: x.box.context}, nil
}

// ofUser is the sandbox's, as that user and group. Whether it may be is policy's to say, as it is of a command.
func ofUser(x *exchange) (site, error) {
	s, _ := ofSandbox(x)
	for name, to := range map[string]**int64{"uid": &s.context.RunAsUser, "gid": &s.context.RunAsGroup} {
		id, err := strconv.ParseInt(x.values[name], 10, 64)
		if err != nil || id < 0 || id > 1<<31-1 {
			return s, faultf(http.StatusBadRequest, execdBody, "%s: %.40q isn't an id", name, x.values[name])
		}
		*to = &id
	}
	return s, nil
}

// ofSession is what a run of an isolated session sees.
func (f *Facade) ofSession(x *exchange) (site, error) {
	session, err := x.findIsolated()
	if err != nil {
		return site{}, err
	}
	session.rest(f, x.box)
	j := job{request: policy.Request{SecurityContext: x.box.context}}
	session.tighten(&j)
	return site{box: x.box, inner: session.layered(), base: session.state.cwdNow(), context: j.request.SecurityContext, readOnly: j.request.Command.ReadOnly}, nil
}

// cwdNow is the directory that the next run begins in.
func (s *session) cwdNow() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cwd == "" {
		return home
	}
	return s.cwd
}
