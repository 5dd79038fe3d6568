package policy

import "strings"

// BuiltinProfiles is what the name of a Localhost profile begins with when it is one that comes with sandboxd: "sandboxd/strict". It is no folder
// of the profile directory.
const BuiltinProfiles = "sandboxd/"

// The profiles that come with sandboxd.
const (
	ProfileStrict  = BuiltinProfiles + "strict"
	ProfileDefault = BuiltinProfiles + "default"
	ProfileJIT     = BuiltinProfiles + "jit"
	ProfileGPU     = BuiltinProfiles + "gpu"
)

// Builtin is the name of a profile that comes with sandboxd, without its beginning; false for another.
func (p SeccompProfile) Builtin() (name string, ok bool) {
	if p.Type != SeccompLocalhost || p.LocalhostProfile == nil {
		return "", false
	}
	return strings.CutPrefix(*p.LocalhostProfile, BuiltinProfiles)
}

// looser has, for a profile, those that allow all that it allows, and more. A test of the compiled programs holds it.
var looser = map[string][]string{
	ProfileStrict:  {ProfileDefault, ProfileJIT, ProfileGPU},
	ProfileDefault: {ProfileJIT, ProfileGPU},
}

// defaulted is the profile under one name: sandboxd's default is RuntimeDefault.
func (p SeccompProfile) defaulted() SeccompProfile {
	if name, ok := p.Builtin(); ok && BuiltinProfiles+name == ProfileDefault {
		return SeccompProfile{Type: SeccompRuntimeDefault}
	}
	return SeccompProfile{Type: p.Type, LocalhostProfile: copyOf(p.LocalhostProfile)}
}

// ordered is the name that a profile has in looser.
func (p SeccompProfile) ordered() string {
	if p.Type == SeccompRuntimeDefault {
		return ProfileDefault
	}
	if name, ok := p.Builtin(); ok {
		return BuiltinProfiles + name
	}
	return ""
}
