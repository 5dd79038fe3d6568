package seccomp

import (
	_ "embed" // default.json
	"fmt"
	"slices"
	"sync"
)

//go:generate go run default_generate.go

// defaultJSON is the default profile of github.com/moby/profiles/seccomp (Apache-2.0). It is a copy, which a test compares with the module, so
// that the launcher, which compiles it for the drop-in runner, doesn't link the module.
//
//go:embed default.json
var defaultJSON string

var defaultProfile struct {
	once    sync.Once
	profile Profile
	err     error
}

// RuntimeDefault is moby's default profile for a process without capabilities on an architecture (a GOARCH) and a kernel (uname's release).
func RuntimeDefault(arch string, kernel string) (Profile, error) {
	if _, err := machineOf(arch); err != nil {
		return Profile{}, err
	}
	if _, err := kernelVersion(kernel); err != nil {
		return Profile{}, fmt.Errorf("seccomp: %w", err)
	}
	d := &defaultProfile
	d.once.Do(func() { d.profile, d.err = ParseProfile([]byte(defaultJSON)) })
	p := d.profile
	p.Rules, p.Kernel = slices.Clone(p.Rules), kernel
	return p, d.err
}
