package catalogue

import (
	"os"
	"runtime"

	"github.com/sandboxd/sandboxd/policy"
)

type (
	policyRow    = policy.Row
	policyReason = policy.Reason
)

// feature is what a kernel or a place must have for a row to say anything. absent says why it hasn't, or nothing.
type feature struct {
	name   string
	absent func(f *fixture) string
}

var (
	amd64 = feature{"amd64's other doors", func(*fixture) string {
		if runtime.GOARCH != "amd64" {
			return "this machine is " + runtime.GOARCH
		}
		return ""
	}}
	setuidImages = feature{"setuid-root images", func(f *fixture) string {
		if f.privileged == "" {
			return "only root can make them, and SANDBOXD_SETUID names none"
		}
		return ""
	}}
	utilLinux = feature{"util-linux", func(*fixture) string {
		for _, program := range []string{"/usr/bin/renice", "/usr/bin/taskset"} {
			if _, err := os.Stat(program); err != nil {
				return "no " + program
			}
		}
		return ""
	}}
	signalScope = mechanism("landlock.scope")
	refer       = mechanism("landlock.refer")
	python      = feature{"python", func(*fixture) string {
		if _, err := os.Stat("/usr/bin/python3"); err != nil {
			return "no /usr/bin/python3"
		}
		return ""
	}}
)

// mechanism is one that sandboxd itself says it has here.
func mechanism(name string) feature {
	return feature{name, func(f *fixture) string {
		if !f.mechanisms[name] {
			return "sandboxd doctor says that this host hasn't got it"
		}
		return ""
	}}
}
