package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/execd/events"
)

// eventsFlags are about Kubernetes Events: none without a pod.
type eventsFlags struct {
	options events.Options
	teller  *events.Teller
}

func (e *eventsFlags) register(f *flagSet) {
	f.StringVar(&e.options.Pod, "events-pod", "", "`name` of the pod that Kubernetes Events are about: denials, mismatches, drift (none unless given)")
	f.StringVar(&e.options.PodUID, "events-pod-uid", "", "`uid` of that pod")
	f.StringVar(&e.options.Credentials, "events-credentials", "", "`directory` with token, ca.crt and namespace, as the kubelet projects them; for --events-pod")
	f.StringVar(&e.options.Server, "events-server", "", "`URL` of the API server (that of KUBERNETES_SERVICE_HOST and _PORT unless given)")
}

// configure starts telling, where that is asked for. What is told can't hold the service up, so that it needs no place in its order.
func (e *eventsFlags) configure(getenv func(string) string, config *execd.Config) (err error) {
	if e.options.Pod == "" {
		if e.options.PodUID != "" || e.options.Credentials != "" || e.options.Server != "" {
			return errors.New("--events-pod-uid, --events-credentials and --events-server need --events-pod")
		}
		return nil
	}
	if e.options.Credentials == "" {
		return errors.New("--events-pod needs --events-credentials: a directory with token, ca.crt and namespace")
	}
	if e.options.Credentials, err = filepath.Abs(e.options.Credentials); err != nil {
		return fmt.Errorf("--events-credentials: %w", err)
	}
	namespace, err := os.ReadFile(filepath.Join(e.options.Credentials, "namespace"))
	if err != nil {
		return fmt.Errorf("--events-credentials: %w", err)
	}
	e.options.Namespace = strings.TrimSpace(string(namespace))
	if e.options.Server == "" {
		host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return errors.New("--events-server: want the API server's URL, since KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT aren't set")
		}
		e.options.Server = "https://" + net.JoinHostPort(host, port)
	}
	e.options.Logger = config.Logger
	config.Private = append(config.Private, e.options.Credentials)
	if err := e.options.Validate(); err != nil {
		return err
	}
	config.OnRecord = func(sequence int64, r audit.Record) { e.teller.Tell(sequence, r) } // nothing is recorded before open
	return nil
}

// open starts to tell; close ends it when the service has ended.
func (e *eventsFlags) open() (err error) {
	if e.options.Pod != "" {
		e.teller, err = events.New(e.options)
	}
	return err
}

func (e *eventsFlags) close() {
	if e.teller != nil {
		e.teller.Close()
	}
}
