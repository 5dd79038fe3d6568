package enforcer

import (
	"runtime"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// What there is to say of seccomp profiles without running anything; commands that only read or write files stand on it.
type (
	ProfileComparison = seccomp.Comparison
	BuiltinProfile    = seccomp.BuiltinProfile
)

// BuiltinProfiles are those that come with sandboxd, the tighter ones first.
func BuiltinProfiles() []BuiltinProfile { return seccomp.Builtins() }

// ShowProfile is a profile of sandboxd's in the OCI form.
func ShowProfile(name, kernel string) ([]byte, error) {
	short, _ := policy.SeccompProfile{Type: policy.SeccompLocalhost, LocalhostProfile: &name}.Builtin()
	profile, err := seccomp.Builtin(short, runtime.GOARCH, kernel)
	if err != nil {
		return nil, err
	}
	return profile.Encode(runtime.GOARCH)
}

// CompareProfile says what a profile allows beyond RuntimeDefault.
func CompareProfile(data []byte, kernel string) (ProfileComparison, error) {
	profile, err := seccomp.ParseProfile(data)
	if err != nil {
		return ProfileComparison{}, err
	}
	return seccomp.Compare(profile, kernel)
}

// Recorded is a profile cut down to the calls that a run under it has used, in the OCI form.
func (p Profiles) Recorded(under policy.SeccompProfile, calls []string, kernel string) ([]byte, error) {
	profile, err := p.load(under, runtime.GOARCH, kernel)
	if err != nil {
		return nil, err
	}
	restricted, err := profile.Restricted(runtime.GOARCH, calls)
	if err != nil {
		return nil, err
	}
	if _, err := seccomp.NewFilter("recorded", restricted, runtime.GOARCH); err != nil {
		return nil, err
	}
	return restricted.Encode(runtime.GOARCH)
}
