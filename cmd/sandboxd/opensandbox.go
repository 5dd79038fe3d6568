package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/opensandbox"
)

// opensandboxFlags is the façade for OpenSandbox's clients, as the flags of serve have it.
type opensandboxFlags struct {
	listen string
	keys   string
	beyond bool
	config opensandbox.Config
}

func (o *opensandboxFlags) register(f *flagSet) {
	o.config = opensandbox.DefaultConfig("/")
	f.StringVar(&o.listen, "opensandbox-listen", "", "TCP `address` to answer OpenSandbox's clients on, such as 127.0.0.1:8080; needs --opensandbox-keys or --insecure (off unless given)")
	f.StringVar(&o.keys, "opensandbox-keys", "", "`path` of a file of ours, mode 0600, with the API keys of its owners: NAME KEY, one a line")
	f.BoolVar(&o.config.Insecure, "insecure", false, "have --opensandbox-listen ask for no API key; on a loopback address only, where every program of this machine may then make sandboxes")
	f.BoolVar(&o.beyond, "opensandbox-listen-beyond-loopback", false, "let --opensandbox-listen be an address of a network; protecting it, and the keys on it, is up to you")
	f.DurationVar(&o.config.DefaultTimeout, "opensandbox-timeout", o.config.DefaultTimeout, "how long a sandbox lives whose create doesn't say")
	f.DurationVar(&o.config.LongestCommand, "opensandbox-longest-command", o.config.LongestCommand, "how long a command may run that has no timeout; policy bounds it too")
	f.Var((*size)(&o.config.MemoryBytes), "opensandbox-memory", "most memory that a sandbox may ask for, in `bytes`")
	f.Float64Var(&o.config.CPU, "opensandbox-cpu", o.config.CPU, "most `cores` that a sandbox may ask for")
	f.Var((*size)(&o.config.LogBytes), "opensandbox-log-bytes", "output of a background command that is kept for its logs, in `bytes`")
	f.Var((*size)(&o.config.FileBytes), "opensandbox-file-bytes", "largest file that OpenSandbox's clients may upload or download at once, in `bytes`; policy bounds it too")
}

// How much runs at once where the clients are OpenSandbox's, unless a flag says otherwise: a sandbox runs many commands beside each other, and each that
// goes on in the background has its place.
const (
	opensandboxRunning = 256
	opensandboxWorkers = 256
)

// configure checks what belongs together, before anything is started.
func (o *opensandboxFlags) configure(f *flagSet, config *execd.Config) error {
	if o.listen == "" {
		if o.keys != "" || o.beyond || o.config.Insecure {
			return errors.New("--opensandbox-keys, --insecure and --opensandbox-listen-beyond-loopback need --opensandbox-listen")
		}
		return nil
	}
	at, err := netip.ParseAddrPort(o.listen)
	if err != nil {
		return fmt.Errorf("--opensandbox-listen %q: want an IP address and a port, such as 127.0.0.1:8080", o.listen)
	}
	loopback := at.Addr().Unmap().IsLoopback()
	switch {
	case (o.keys == "") != o.config.Insecure:
		return errors.New("--opensandbox-listen wants either --opensandbox-keys FILE or --insecure")
	case o.config.Insecure && !loopback:
		return fmt.Errorf("--insecure: %s isn't a loopback address; whoever reaches it could make sandboxes", o.listen)
	case !loopback && !o.beyond:
		return fmt.Errorf("--opensandbox-listen %s: not a loopback address; the keys would cross a network in the clear", o.listen)
	}
	if o.keys != "" {
		secret, err := filepath.Abs(o.keys)
		if err != nil {
			return fmt.Errorf("--opensandbox-keys: %w", err)
		}
		config.Private = append(config.Private, secret)
		if o.config.Keys, err = opensandbox.ReadKeys(secret); err != nil {
			return err
		}
	}
	if !isSet(f, "max-running") {
		config.MaxRunning = opensandboxRunning
	}
	if !isSet(f, "max-workers") {
		config.MaxWorkers = opensandboxWorkers
	}
	o.config.Dir, o.config.Logger = filepath.Join(config.StateDir, "opensandbox"), config.Logger
	return o.config.Validate()
}

// open opens the façade and its listener; nil, nil: it wasn't asked for.
func (o *opensandboxFlags) open(service *execd.Service) (*facade, error) {
	if o.listen == "" {
		return nil, nil
	}
	opened, err := opensandbox.Open(service, o.config)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		opened.Close()
		return nil, err
	}
	return &facade{"OpenSandbox", []net.Listener{execd.Mount(l, opened)}, opened.Close}, nil
}
