package enforcer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// ObserveAttached reads the state of a launcher that isn't our child: what everybody may read. Its pidfd must be looked at after, so that the number was
// its own.
//
// opaque says that no more may be read of it ([Host].Opaque).
func ObserveAttached(pid int, opaque bool, held *fence.Fence) (SandboxState, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return SandboxState{}, err
	}
	defer process.Close()
	var state SandboxState
	err = state.readAttached(process)
	if err == nil && !opaque {
		err = state.readLinks(process, pid)
	}
	if err != nil {
		return SandboxState{}, ended(process, pid, err)
	}
	own, err := procfs.Open(os.Getpid())
	if err != nil {
		return SandboxState{}, err
	}
	defer own.Close()
	threads, err := own.Threads()
	if err != nil {
		return SandboxState{}, err
	}
	if state.Own, err = outlineOf(own, threads[0]); err != nil {
		return SandboxState{}, err
	}
	if state.OwnMounts, err = own.Mounts(); err != nil {
		return SandboxState{}, err
	}
	if held != nil {
		state.Fence, err = held.Observe()
	}
	return state, err
}

func (s *SandboxState) readAttached(p *procfs.Process) (err error) {
	if s.Threads, err = p.Threads(); err != nil {
		return err
	}
	if s.Mounts, err = p.Mounts(); err != nil {
		return err
	}
	if s.Outline, err = outlineOf(p, s.Threads[0]); err != nil {
		return err
	}
	s.EnvironOwner, err = p.Owner("environ")
	return err
}

// readLinks reads what is shown to who may trace the launcher.
func (s *SandboxState) readLinks(p *procfs.Process, pid int) (err error) {
	if s.Namespaces, err = Namespaces(pid); err != nil {
		return err
	}
	location, err := locate(p)
	s.Root, s.RootID, s.Exe, s.ExeID = location.Root, location.RootID, location.Exe, location.ExeID
	return err
}

// MountsDigest names the launcher's mount table.
func (s SandboxState) MountsDigest() string {
	hash := sha256.New()
	for _, m := range s.Mounts {
		fmt.Fprintln(hash, m.ID, m.Dev, m.Root, m.Target, m.Options, m.Type)
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)[:16])
}

// OfUser are the processes that have a uid among their ids and that this process can see, but some.
func OfUser(uid int, but ...int) (found []int, err error) {
	skip := make(map[int]bool, len(but))
	for _, pid := range but {
		skip[pid] = true
	}
	all, err := procfs.All()
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		if skip[pid] {
			continue
		}
		process, err := procfs.Open(pid)
		if err != nil {
			continue // it has ended
		}
		threads, err := process.Threads()
		process.Close()
		if err != nil {
			continue // as well, or it is a zombie
		}
		for _, id := range threads[0].UIDs {
			if id == uid {
				found = append(found, pid)
				break
			}
		}
	}
	return found, nil
}
