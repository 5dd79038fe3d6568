package seccomp

import (
	"encoding/json"
	"fmt"
	"sync"

	moby "github.com/moby/profiles/seccomp"
)

// mobyDefault goes through moby's JSON, so that what the data mean is said in one place, by ParseProfile. The linker leaves all of it out of
// a program that never asks for RuntimeDefault, as the launcher.
var mobyDefault = sync.OnceValues(func() (Profile, error) {
	data, err := json.Marshal(moby.DefaultProfile())
	if err != nil {
		return Profile{}, fmt.Errorf("seccomp: moby's default profile: %w", err)
	}
	return ParseProfile(data)
})

// RuntimeDefault is moby's default profile for a process without capabilities on an architecture (a GOARCH) and a kernel (uname's release).
func RuntimeDefault(arch string, kernel string) (Profile, error) {
	if _, err := machineOf(arch); err != nil {
		return Profile{}, err
	}
	if _, err := kernelVersion(kernel); err != nil {
		return Profile{}, fmt.Errorf("seccomp: %w", err)
	}
	p, err := mobyDefault()
	p.Kernel = kernel
	return p, err
}
