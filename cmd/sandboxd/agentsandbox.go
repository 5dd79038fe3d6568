package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/agentsandbox"
)

// agentsandboxFlags is the façade for agent-sandbox's clients, as the flags of serve have it.
type agentsandboxFlags struct {
	listen list
	token  string
	peers  list
	config agentsandbox.Config
}

func (a *agentsandboxFlags) register(f *flagSet) {
	a.config = agentsandbox.DefaultConfig()
	f.Var(&a.listen, "agent-sandbox-listen", "TCP `address` to answer agent-sandbox's clients and router on, REST and gRPC alike, such as 0.0.0.0:8888; again for more; needs --agent-sandbox-peer, --agent-sandbox-token-file, or --agent-sandbox-insecure on a loopback address (off unless given)")
	f.StringVar(&a.token, "agent-sandbox-token-file", "", "`path` of a file of ours, mode 0600, with the token that requests must have; agent-sandbox's router and its clients of gRPC don't send one")
	f.Var(&a.peers, "agent-sandbox-peer", "`address` or prefix, such as 10.0.0.0/8, from which --agent-sandbox-listen may be connected to; again for more (any, where there is a token)")
	f.BoolVar(&a.config.Access.Insecure, "agent-sandbox-insecure", false, "have --agent-sandbox-listen ask for neither; on a loopback address only, where whatever is beside it may then have commands run")
	f.StringVar(&a.config.Base, "agent-sandbox-root", a.config.Base, "`directory` of the sandbox that the paths of agent-sandbox's clients are relative to, and in which their commands begin")
	f.DurationVar(&a.config.LongestCommand, "agent-sandbox-longest-command", a.config.LongestCommand, "how long a command of agent-sandbox's clients may run that has no timeout; policy bounds it too")
	f.Var((*size)(&a.config.FileBytes), "agent-sandbox-file-bytes", "largest file that agent-sandbox's clients may upload or download, in `bytes`; policy bounds it too")
}

// configure checks what belongs together, before anything is started.
func (a *agentsandboxFlags) configure(config *execd.Config) error {
	access := &a.config.Access
	if len(a.listen) == 0 {
		if a.token != "" || len(a.peers) > 0 || access.Insecure {
			return errors.New("--agent-sandbox-token-file, --agent-sandbox-peer and --agent-sandbox-insecure need --agent-sandbox-listen")
		}
		return nil
	}
	if named := a.token != "" || len(a.peers) > 0; named == access.Insecure {
		return errors.New("--agent-sandbox-listen wants --agent-sandbox-peer, --agent-sandbox-token-file or both, or else --agent-sandbox-insecure")
	}
	for _, text := range a.listen {
		at, err := netip.ParseAddrPort(text)
		switch {
		case err != nil:
			return fmt.Errorf("--agent-sandbox-listen %q: want an IP address and a port, such as 0.0.0.0:8888", text)
		case access.Insecure && !at.Addr().Unmap().IsLoopback():
			return fmt.Errorf("--agent-sandbox-insecure: %s isn't a loopback address; whoever reaches it could have commands run", text)
		}
	}
	for _, text := range a.peers {
		peers, err := netip.ParsePrefix(text)
		if err != nil {
			var one netip.Addr
			if one, err = netip.ParseAddr(text); err == nil {
				peers, err = one.Unmap().Prefix(one.Unmap().BitLen())
			}
		}
		if err != nil || peers != peers.Masked() {
			return fmt.Errorf("--agent-sandbox-peer %q: want an IP address or a prefix without host bits, such as 10.0.0.0/8", text)
		}
		access.Peers = append(access.Peers, peers)
	}
	if a.token != "" {
		secret, err := filepath.Abs(a.token)
		if err != nil {
			return fmt.Errorf("--agent-sandbox-token-file: %w", err)
		}
		config.Private = append(config.Private, secret)
		if err := access.ReadToken(secret); err != nil {
			return fmt.Errorf("--agent-sandbox-token-file %s: %w", secret, err)
		}
	}
	a.config.Logger = config.Logger
	return a.config.Validate()
}

// open opens the façade and its listener; nil, nil: it wasn't asked for.
func (a *agentsandboxFlags) open(service *execd.Service) (*facade, error) {
	if len(a.listen) == 0 {
		return nil, nil
	}
	opened, err := agentsandbox.Open(service, a.config)
	if err != nil {
		return nil, err
	}
	made := &facade{"agent-sandbox", nil, opened.Close}
	for _, address := range a.listen {
		l, err := net.Listen("tcp", address)
		if err != nil {
			opened.Close()
			for _, other := range made.listeners {
				err = errors.Join(err, other.Close())
			}
			return nil, err
		}
		made.listeners = append(made.listeners, execd.MountHTTP2(l, opened))
	}
	return made, nil
}
