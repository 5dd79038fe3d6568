package main

import (
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd"
)

// untuned are the fields of execd.Config that registerTuning leaves out, each with its reason.
var untuned = map[string]string{
	"Version":         "the build's",
	"StateDir":        "--state",
	"AuditDir":        "--audit",
	"PolicyDir":       "--policy",
	"ProfileDir":      "--profiles",
	"RunnerPath":      "--runner",
	"Show":            "--show",
	"Resolvers":       "--resolver",
	"ResolvConf":      "--resolver; where the host says whom to ask is no choice",
	"Private":         "--socket, --token-file",
	"Logger":          "--log, --log-level",
	"Now":             "tests only: the clock of the machine is everybody's",
	"OnRecord":        "--events-pod",
	"AuditCopy":       "--audit-stdout",
	"AuditKeyFile":    "--audit-key",
	"AuditSlots":      "a daemon has its log to itself",
	"TestedPolicy":    "a daemon tests its policy",
	"Prewarm":         "--prewarm",
	"Images":          "--image",
	"AllowPull":       "--allow-pull",
	"CompileDriver":   "tests only: without it each cold run is slower, and nothing is gained",
	"Late":            "--policy-late, --policy-binder",
	"Attach":          "--runner-socket, --runner-uid, --writable, --proxy-port, --fence-uid, --fence-port",
	"PrewarmTimeout":  "as DecisionTimeout: imports that take longer would never be worth it",
	"DecisionTimeout": "what is behind it is a bug, not a load",
	"GateTimeout":     "as DecisionTimeout",
	"SandboxTimeout":  "as DecisionTimeout",
	"RecordTimeout":   "as DecisionTimeout: a disk that takes longer is broken",
	"KillTimeout":     "as DecisionTimeout: a kernel that takes longer has a process in D state",
}

// words are values of flags that take words, and ranges.
var words = map[string]string{"on-drift": "deny", "claim-file": "/elsewhere", "record-connections": "true", "uids": "4096", "first-uid": "300000"}

// TestEveryFieldHasAFlag gives each flag another value than its default, and finds exactly one field of the config changed by it.
func TestEveryFieldHasAFlag(t *testing.T) {
	set := map[string]bool{}
	var names []string
	probe := execd.DefaultConfig("/")
	all := newFlagSet(command{name: "serve"})
	registerTuning(all, &probe)
	all.VisitAll(func(one *flag.Flag) { names = append(names, one.Name) })
	for _, name := range names {
		config, before := execd.DefaultConfig("/"), execd.DefaultConfig("/")
		flags := newFlagSet(command{name: "serve"})
		registerTuning(flags, &config)
		if flags.Lookup(name).DefValue == "" {
			t.Errorf("--%s has no default", name)
		}
		value := words[name]
		if value == "" {
			value = otherValue(flags.Lookup(name).DefValue)
		}
		if err := flags.parse([]string{"--" + name, value}); err != nil {
			t.Errorf("--%s %s: %v", name, value, err)
			continue
		}
		changed := differences(config, before)
		if len(changed) != 1 {
			t.Errorf("--%s %s changes %v, want one field", name, value, changed)
			continue
		}
		if set[changed[0]] {
			t.Errorf("%s has two flags", changed[0])
		}
		set[changed[0]] = true
		if err := config.Validate(); err != nil {
			t.Errorf("--%s %s: %v", name, value, err)
		}
	}
	fields := reflect.TypeFor[execd.Config]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if _, reason := untuned[name]; set[name] == reason {
			t.Errorf("Config.%s: flag %t, reason to have none %t", name, set[name], reason)
		}
	}
}

func otherValue(def string) string {
	switch {
	case strings.HasSuffix(def, "s"):
		return "7s"
	case strings.HasSuffix(def, "iB"):
		return "1" + def // ten times as much and more
	}
	return "3"
}

func differences(a, b execd.Config) []string {
	var names []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if name := x.Type().Field(i).Name; name != "Logger" && name != "Now" && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, name)
		}
	}
	return names
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "65536": 65536, "64KiB": 64 << 10, "3MiB": 3 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40, "9223372036854775807": 1<<63 - 1,
	} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%s = %d, %v; want %d", text, s, err, want)
		}
		var again size
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%s is written as %s, which reads as %d (%v)", text, s.String(), again, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1K", "1KB", "1 KiB", "1kib", "0x10", "1.5MiB", "1e6", "MiB", "9223372036854775808", "9007199254740992KiB", "8388608TiB"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		} else if !strings.Contains(fmt.Sprint(err), "1MiB") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
