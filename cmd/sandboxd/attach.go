package main

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/sandboxd/sandboxd/execd"
)

// attach are the flags of a daemon whose launcher is somebody else's to start: a pod's runner beside it.
type attach struct {
	config      execd.Attach
	writable    list
	uids, ports list
	socketGiven string
}

func (a *attach) register(f *flagSet) {
	f.StringVar(&a.socketGiven, "runner-socket", "", "`path` of the socket on which a launcher connects that somebody else starts (sandboxd-runner connect PATH UID), such as a pod's runner; what it is in is the one sandbox then")
	f.IntVar(&a.config.UID, "runner-uid", 0, "`uid` that the launcher of --runner-socket must have")
	f.Var(&a.writable, "writable", "`directory` of the launcher's file system that execs may write to; again for more (/dev/shm, /tmp and /work, where they are mounts, unless given)")
	f.IntVar(&a.config.ProxyPort, "proxy-port", 0, "`port` of the loopback on which the relay serves as a proxy, where the daemon has no NET_ADMIN; 0 nothing is let out there")
	f.Var(&a.uids, "fence-uid", "another `uid` that may send to the network past the fence, such as that of a container beside; again for more")
	f.Var(&a.ports, "fence-port", "TCP `port` that may be connected to from outside; again for more")
}

// configure puts what was given into a config. What can't be, and what goes together, the config's own check says.
func (a *attach) configure(c *execd.Config) (err error) {
	c.Attach = a.config
	if a.socketGiven != "" {
		if c.Attach.Socket, err = filepath.Abs(a.socketGiven); err != nil {
			return fmt.Errorf("--runner-socket: %w", err)
		}
	}
	c.Attach.Writable = a.writable
	for _, numbers := range []struct {
		flag string
		from list
		to   *[]int
	}{{"--fence-uid", a.uids, &c.Attach.FenceUIDs}, {"--fence-port", a.ports, &c.Attach.FencePorts}} {
		for _, text := range numbers.from {
			number, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return fmt.Errorf("%s %s: want a number", numbers.flag, text)
			}
			*numbers.to = append(*numbers.to, int(number))
		}
	}
	return nil
}
