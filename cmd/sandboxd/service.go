package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// service is sandboxd as a command meets it: in this process ([embedded]) or behind a socket ([client]). Both take the bytes of the API's own
// body, so that there is one parser for every way in.
type service interface {
	// Exec takes the body of POST /v1/exec or /v1/run.
	Exec(ctx context.Context, action policy.Action, body requestBody, sink execd.Sink, rows bool) (execd.Reply, error)
	// Decide takes the body of POST /v1/decide.
	Decide(ctx context.Context, body []byte) (execd.DecideReply, error)
	// Verify takes the body of POST /v1/verify.
	Verify(ctx context.Context, body []byte, rows bool) (execd.VerifyReply, error)
	Close() error
}

// place says where the service is and, when it is in this process, how it is set up.
type place struct {
	socket string
	config execd.Config
	state  string
	audit  string
	show   list
	// resolvers are addresses, or "none".
	resolvers list
}

// registerClient adds the flags of a command that can also be embedded.
func (l *place) registerClient(f *flagSet) {
	f.StringVar(&l.socket, "socket", "", "`path` of a daemon's socket; without it everything happens in this process")
	l.registerEmbedded(f)
}

// registerEmbedded adds the flags that set a service up in this process.
func (l *place) registerEmbedded(f *flagSet) {
	f.StringVar(&l.config.PolicyDir, "policy", "", "`directory` of a policy bundle (the built-in one unless given)")
	f.StringVar(&l.config.ProfileDir, "profiles", "", "`directory` of the seccomp profiles that type Localhost names")
	f.StringVar(&l.config.RunnerPath, "runner", "", "`path` of sandboxd-runner (beside this program unless given)")
	f.StringVar(&l.state, "state", "", "`directory` of its own files (/var/lib/sandboxd as root, else $XDG_STATE_HOME/sandboxd)")
	f.StringVar(&l.audit, "audit", "", "`directory` of the audit log (audit in the state directory unless given); a second exec at the same time writes to directory.2")
	f.Var(&l.show, "show", "host `path` that sandboxes see read-only, besides the system directories; again for more")
	f.Var(&l.resolvers, "resolver", "`address[:port]` that names are asked of, for sandboxes that may connect to names; again for more; none: no name resolves (the host's own unless given)")
}

// configure puts into a config where everything is.
func (l *place) configure(p *program, config execd.Config) (execd.Config, error) {
	state, err := l.stateDir(p.getenv)
	if err != nil {
		return execd.Config{}, err
	}
	config.StateDir, config.Version = state, buildVersion()
	if slices.Contains([]string{"none", "off", "-", "stdout"}, l.audit) {
		return config, fmt.Errorf("--audit %s: there is no running without a log on a disk, since a release waits for it; serve --audit-stdout prints it besides", l.audit)
	}
	for _, path := range []struct {
		flag string
		from string
		to   *string
	}{
		{"--policy", l.config.PolicyDir, &config.PolicyDir},
		{"--profiles", l.config.ProfileDir, &config.ProfileDir},
		{"--runner", l.config.RunnerPath, &config.RunnerPath},
		{"--audit", l.audit, &config.AuditDir},
	} {
		if path.from == "" {
			continue
		}
		if *path.to, err = filepath.Abs(path.from); err != nil {
			return config, fmt.Errorf("%s: %w", path.flag, err)
		}
	}
	for _, path := range l.show {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return config, fmt.Errorf("--show: %w", err)
		}
		config.Show = append(config.Show, absolute)
	}
	config.Resolvers, err = parseResolvers(l.resolvers)
	if len(l.resolvers) > 0 {
		config.ResolvConf = ""
	}
	return config, err
}

// open reaches the daemon, or sets a service up for this one command.
func (l *place) open(ctx context.Context, p *program, f *flagSet) (service, error) {
	if l.socket != "" {
		for _, name := range []string{"policy", "profiles", "runner", "state", "audit", "show", "resolver"} {
			if isSet(f, name) {
				return nil, fmt.Errorf("--%s belongs to the daemon and can't be chosen through --socket; give it to sandboxd serve", name)
			}
		}
		return newClient(l.socket), nil
	}
	config, err := l.configure(p, execd.DefaultConfig("/"))
	if err != nil {
		return nil, err
	}
	config.Pool, config.MaxRunning, config.MaxWaiting, config.MaxWorkers = 0, 1, 0, 1
	config.MaxSandboxes = 0 // nobody can ask for one to keep
	config.AuditSlots, config.TestedPolicy = mostLogs, true
	config.ProbeInterval = 0 // one command proves nothing by itself; sandboxd verify does
	s, err := execd.New(ctx, config)
	if err != nil {
		return nil, err
	}
	return &embedded{service: s, stop: config.StopTimeout}, nil
}

// mostLogs is how many commands may embed a service at once on one audit directory.
const mostLogs = 64

// stateDir is where a service keeps its own files.
func (l *place) stateDir(getenv func(string) string) (string, error) {
	if l.state != "" {
		return filepath.Abs(l.state)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/sandboxd", nil
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sandboxd"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("no place for the audit log: neither XDG_STATE_HOME nor HOME is set; give --state DIR")
	}
	return filepath.Join(home, ".local", "state", "sandboxd"), nil
}
