package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/sandboxd/sandboxd/execd"
)

// metricsFlags is a listener for those who scrape: numbers, and whether it is alive and ready.
type metricsFlags struct {
	listen string
	beyond bool
}

func (m *metricsFlags) register(f *flagSet) {
	f.StringVar(&m.listen, "metrics-listen", "", "TCP `address` to answer /metrics, /healthz and /readyz on, and nothing else, such as 127.0.0.1:9464 (off unless given)")
	f.BoolVar(&m.beyond, "metrics-listen-beyond-loopback", false, "let --metrics-listen be an address of a network, where whoever reaches it reads the numbers")
}

func (m *metricsFlags) configure() error {
	if m.listen == "" {
		if m.beyond {
			return errors.New("--metrics-listen-beyond-loopback needs --metrics-listen")
		}
		return nil
	}
	at, err := netip.ParseAddrPort(m.listen)
	if err != nil {
		return fmt.Errorf("--metrics-listen %q: want an IP address and a port, such as 127.0.0.1:9464", m.listen)
	}
	if !at.Addr().Unmap().IsLoopback() && !m.beyond {
		return fmt.Errorf("--metrics-listen %s: not a loopback address; --metrics-listen-beyond-loopback says that others may read the numbers", m.listen)
	}
	return nil
}

// open opens the listener; nil, nil: it wasn't asked for.
func (m *metricsFlags) open(service *execd.Service) (*facade, error) {
	if m.listen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", m.listen)
	if err != nil {
		return nil, err
	}
	return &facade{"metrics", []net.Listener{execd.Mount(l, service.Numbers())}, func() {}}, nil
}
