package main

import (
	"context"
	"errors"
	"net"

	"github.com/sandboxd/sandboxd/execd"
)

// facades are the foreign protocols that serve may speak besides its own.
type facades struct {
	datarobot    datarobot
	opensandbox  opensandboxFlags
	agentsandbox agentsandboxFlags
	metrics      metricsFlags
}

func (f *facades) register(flags *flagSet) {
	f.datarobot.register(flags)
	f.opensandbox.register(flags)
	f.agentsandbox.register(flags)
	f.metrics.register(flags)
}

// configure checks what belongs together, before anything is started.
func (f *facades) configure(flags *flagSet, config *execd.Config) error {
	if err := f.datarobot.configure(config); err != nil {
		return err
	}
	return errors.Join(f.opensandbox.configure(flags, config), f.agentsandbox.configure(config), f.metrics.configure())
}

// facade answers on listeners of its own.
type facade struct {
	protocol  string
	listeners []net.Listener
	close     func()
}

// serveBeside serves the façades' listeners beside the others, and closes the façades when the service has ended. When all are open it says ready.
func (f *facades) serveBeside(ctx context.Context, service *embedded, listeners []net.Listener, ready func() error) error {
	var opened []facade
	defer func() {
		for _, one := range opened {
			one.close()
		}
	}()
	giveUp := func(err error) error {
		for _, other := range listeners {
			err = errors.Join(err, other.Close())
		}
		return errors.Join(err, service.Close())
	}
	for _, open := range []func(*execd.Service) (*facade, error){f.datarobot.open, f.opensandbox.open, f.agentsandbox.open, f.metrics.open} {
		one, err := open(service.service)
		if err != nil {
			return giveUp(err)
		}
		if one == nil {
			continue
		}
		opened, listeners = append(opened, *one), append(listeners, one.listeners...)
		for _, l := range one.listeners {
			f.datarobot.config.Logger.Info("listening", "network", l.Addr().Network(), "address", l.Addr().String(), "protocol", one.protocol)
		}
	}
	if err := ready(); err != nil {
		return giveUp(err)
	}
	return service.service.Serve(ctx, listeners...) // which closes the service
}
