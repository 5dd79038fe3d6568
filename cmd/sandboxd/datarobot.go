package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/datarobot/workloads"
)

// datarobot is the façade for DataRobot's sandbox client, as the flags of serve have it.
type datarobot struct {
	listen string
	token  string
	beyond bool
	images list
	config workloads.Config
}

func (d *datarobot) register(f *flagSet) {
	d.config = workloads.DefaultConfig("/")
	f.StringVar(&d.listen, "datarobot-listen", "", "TCP `address` to answer DataRobot's workload API on, such as 127.0.0.1:7781; needs --datarobot-token-file and --datarobot-image (off unless given)")
	f.StringVar(&d.token, "datarobot-token-file", "", "`path` of a file of ours, mode 0600, with the API token that its clients must have")
	f.BoolVar(&d.beyond, "datarobot-listen-beyond-loopback", false, "let --datarobot-listen be an address of a network; protecting it, and the token on it, is up to you")
	f.Var(&d.images, "datarobot-image", "`name` that imageUri may have, or a pattern in which * goes up to the next slash; again for more")
	f.Int64Var(&d.config.MemoryBytes, "datarobot-memory", d.config.MemoryBytes, "most `bytes` of memory that a workload may ask for")
	f.Float64Var(&d.config.CPU, "datarobot-cpu", d.config.CPU, "most `cores` that a workload may ask for")
	f.Int64Var(&d.config.OutputBytes, "datarobot-output", d.config.OutputBytes, "`bytes` of each stream that are kept")
	f.DurationVar(&d.config.Retention, "datarobot-retention", d.config.Retention, "for how long an ended workload is kept that nobody deletes")
}

// configure checks what belongs together, before anything is started.
func (d *datarobot) configure(config *execd.Config) error {
	d.config.Logger = config.Logger
	if d.listen == "" {
		if d.token != "" || d.beyond || len(d.images) > 0 {
			return errors.New("--datarobot-token-file, --datarobot-image and --datarobot-listen-beyond-loopback need --datarobot-listen")
		}
		return nil
	}
	if d.token == "" {
		return errors.New("--datarobot-listen and --datarobot-token-file go together: the token is all that names a caller")
	}
	if len(d.images) == 0 {
		return errors.New("--datarobot-listen needs --datarobot-image: no image is known but those that are given")
	}
	secret, err := filepath.Abs(d.token)
	if err != nil {
		return fmt.Errorf("--datarobot-token-file: %w", err)
	}
	config.Private = append(config.Private, secret)
	d.config.Dir, d.config.Images = filepath.Join(config.StateDir, "workloads"), d.images
	d.config.InputBytes = config.InputBytes
	return d.config.Validate()
}

// open opens the façade and its listener, which serve it; nil, nil: it wasn't asked for.
func (d *datarobot) open(service *execd.Service) (*facade, error) {
	if d.listen == "" {
		return nil, nil
	}
	opened, err := workloads.Open(service, d.config)
	if err != nil {
		return nil, err
	}
	l, err := execd.ListenToken(d.listen, d.token, d.beyond)
	if err != nil {
		opened.Close()
		return nil, err
	}
	return &facade{"DataRobot workloads", []net.Listener{execd.Mount(l, opened)}, opened.Close}, nil
}
