package enforcer

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// compiled has filters by what they were compiled from. Compiling is for a profile, not for an exec; there are as many as there are
// profiles and edits of them.
var compiled sync.Map // of filterKey to seccomp.Filter

type filterKey struct {
	name, arch, kernel string
	content            [sha256.Size]byte
	network            string // what the filter holds of the network besides
}

// load is a profile as it is written, for this kernel.
func (p Profiles) load(s policy.SeccompProfile, arch, kernel string) (profile seccomp.Profile, err error) {
	builtin, ours := s.Builtin()
	switch {
	case s.Type == policy.SeccompRuntimeDefault:
		profile, err = seccomp.RuntimeDefault(arch, kernel)
	case ours:
		profile, err = seccomp.Builtin(builtin, arch, kernel)
	case s.Type == policy.SeccompLocalhost && s.LocalhostProfile != nil:
		var data []byte
		if data, err = p.read(*s.LocalhostProfile); err == nil {
			profile, err = seccomp.ParseProfile(data)
		}
	default:
		err = fmt.Errorf("%s is no profile", s)
	}
	profile.Kernel = kernel
	return profile, err
}

// filter is the seccomp filter of the decision's profile.
func (b *builder) filter(p Profiles) (seccomp.Filter, error) {
	const field = "securityContext.seccompProfile"
	profile := b.decision.Effective.SecurityContext.SeccompProfile
	if profile == nil {
		return seccomp.Filter{}, &RefusedError{Field: field, Message: "the decision names no profile", HowTo: `set {"type":"RuntimeDefault"}`}
	}
	if b.filtersNetwork() {
		if err := b.needsFilter(profile.Type); err != nil {
			return seccomp.Filter{}, err
		}
	}
	if profile.Type == policy.SeccompUnconfined {
		return seccomp.Filter{Profile: policy.SeccompUnconfined}, nil
	}
	if !slices.Contains(b.host.SeccompActions, "errno") {
		if err := b.lack("seccomp", field, "this kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER"); err != nil {
			return seccomp.Filter{}, err
		}
		return seccomp.Filter{Profile: policy.SeccompUnconfined}, nil
	}
	key := filterKey{name: policy.SeccompRuntimeDefault, arch: b.host.Arch, kernel: b.host.Kernel}
	if b.filtersNetwork() {
		key.network = b.plan.Network
	}
	load := func() (seccomp.Profile, error) { return seccomp.RuntimeDefault(key.arch, key.kernel) }
	switch profile.Type {
	case policy.SeccompRuntimeDefault:
	case policy.SeccompLocalhost:
		if profile.LocalhostProfile == nil {
			return seccomp.Filter{}, &RefusedError{Field: field + ".localhostProfile", Message: "type Localhost needs a file name", HowTo: "name one of the profiles that this daemon has"}
		}
		name := *profile.LocalhostProfile
		if builtin, ok := profile.Builtin(); ok {
			key.name = policy.SeccompLocalhost + "/" + name
			load = func() (seccomp.Profile, error) { return seccomp.Builtin(builtin, key.arch, key.kernel) }
			break
		}
		data, err := p.read(name)
		if err != nil {
			return seccomp.Filter{}, &RefusedError{Field: field + ".localhostProfile", Message: err.Error(), HowTo: "name a regular file beneath the profile directory (--profiles)"}
		}
		key.name, key.content = policy.SeccompLocalhost+"/"+name, sha256.Sum256(data)
		load = func() (seccomp.Profile, error) { return seccomp.ParseProfile(data) }
	default:
		return seccomp.Filter{}, &RefusedError{Field: field + ".type", Message: fmt.Sprintf("unknown type %q", profile.Type), HowTo: "use RuntimeDefault, Localhost or Unconfined"}
	}
	if have, ok := compiled.Load(key); ok {
		return have.(seccomp.Filter), nil
	}
	loaded, err := load()
	if err != nil {
		return seccomp.Filter{}, &RefusedError{Field: field, Message: fmt.Sprintf("%s: %v", key.name, err), HowTo: "correct the profile"}
	}
	loaded.Kernel = key.kernel // what the rules' minKernel is held against
	filter, err := seccomp.NewFilter(key.name, loaded, key.arch, networkRules(key.network)...)
	if err != nil {
		return seccomp.Filter{}, &RefusedError{Field: field, Message: err.Error(), HowTo: "correct the profile"}
	}
	compiled.Store(key, filter)
	return filter, nil
}
