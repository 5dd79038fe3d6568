package execd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// settleIn fits a program to a sandbox that somebody else made: where it starts, and by whom it goes out. What the request says stays.
func (w *walk) settleIn() {
	plan := w.box.Plan()
	if plan.Attached == nil || w.program.Own {
		return
	}
	if home := plan.Home(); home != workDir {
		if w.program.Cwd == workDir && !w.saysCwd() {
			w.program.Cwd = home
		}
		for _, defaults := range []map[string]string{safeEnv, pythonEnv} {
			for name, value := range defaults {
				if rest, beneath := strings.CutPrefix(value, workDir); beneath {
					w.defaultEnv(name, value, home+rest)
				}
			}
		}
	}
	if _, there := plan.Mounted(safeEnv["TMPDIR"]); !there {
		w.defaultEnv("TMPDIR", safeEnv["TMPDIR"], plan.Home())
	}
	if w.plan.Network == enforcer.NetworkProxy {
		for _, variable := range proxyEnv(plan.ProxyPort) {
			name, _, _ := strings.Cut(variable, "=")
			if !slices.ContainsFunc(w.program.Env, func(have string) bool { return strings.HasPrefix(have, name+"=") }) {
				w.program.Env = append(w.program.Env, variable)
			}
		}
		slices.Sort(w.program.Env)
	}
}

func (w *walk) saysCwd() bool {
	if w.request.Action == policy.ActionRun {
		return w.request.Program.Cwd != ""
	}
	return w.request.Command.Cwd != ""
}

// defaultEnv changes a variable that still is as every child gets it.
func (w *walk) defaultEnv(name, from, to string) {
	if i := slices.Index(w.program.Env, name+"="+from); i >= 0 {
		w.program.Env[i] = name + "=" + to
	}
}

// proxyEnv are the variables by which programs find a proxy, in both spellings that are in use. What is on the loopback isn't asked of it: nothing there but
// the proxy can be connected to, and the kernel says so at once.
func proxyEnv(port uint16) []string {
	at := "http://127.0.0.1:" + strconv.Itoa(int(port))
	var all []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		all = append(all, name+"="+at, strings.ToLower(name)+"="+at)
	}
	return append(all, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1")
}
