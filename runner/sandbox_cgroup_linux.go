package runner

import "github.com/sandboxd/sandboxd/enforcer/cgroup"

// makeGroups makes the groups of launcher and workers, and says in which of them the launcher begins.
//
//	Config.Cgroup            the root that launcher, workers and execs have in common
//	Config.Cgroup/workers
//	Config.Cgroup/exec-1
//
// Where the launcher is when it makes its cgroup namespace is that namespace's root. A program of an exec then finds itself in "/../exec-1". On a
// kernel that lets nobody cross such a root (nsdelegate), a worker could put no child there: it refuses clone3 with ENOENT. So there the launcher begins
// in the common root, and is moved when it has made its namespace; that costs milliseconds, since the kernel stops every fork for it. No
// controller may be enabled in a group that has processes, so it is one of its own.
//
//	Config.Cgroup/sandbox
//	Config.Cgroup/sandbox/workers
//	Config.Cgroup/sandbox/exec-1
func (s *Sandbox) makeGroups() (first *cgroup.Group, err error) {
	if s.config.Host.Cgroup.NSDelegate {
		s.root, err = s.config.Cgroup.Sub("sandbox", s.config.Plan.Outside.UID, true)
		return s.root, err
	}
	s.root = s.config.Cgroup
	s.workersGroup, err = s.root.Sub("workers", -1, true)
	return s.workersGroup, err
}

// settle moves a launcher that began in the common root to where it stays.
func (s *Sandbox) settle() (err error) {
	if s.root == nil || s.workersGroup != nil {
		return nil
	}
	if s.workersGroup, err = s.root.Sub("workers", -1, true); err != nil {
		return err
	}
	if err := s.workersGroup.Add(s.process.Pid); err != nil {
		return err
	}
	return s.root.Enable()
}
