package runner

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

// spare says whether what the leader left behind lives on: it may, somebody is there, and nobody has told the tree to end. From then on Kill ends them.
func (c *Child) spare() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spared = c.leave && !c.heard.empty && !c.condemned && c.giveUp.IsZero()
	return c.spared
}

// Left says whether the leader has ended and processes of its tree live on. It may be called at any time by anyone.
func (c *Child) Left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spared && !c.over
}

// WaitLeft waits for the end of what Wait said is left, and kills it when ctx ends. It ends the exec, as Wait does where nothing is left: nobody is there any
// more when the Exit says that the tree is empty.
func (c *Child) WaitLeft(ctx context.Context) Exit {
	stop := context.AfterFunc(ctx, c.Kill)
	defer stop()
	exit := Exit{Left: true}
	clean := false
	for !c.heard.empty {
		if c.next() != nil {
			c.Kill()
			break
		}
	}
	if c.group != nil {
		exit.TreeEmpty, exit.TreeEvidence = c.emptyGroup(), policy.EvidenceKernel
	}
	if c.heard.empty {
		exit.Reaped = c.heard.reaped
		if c.group == nil {
			exit.TreeEmpty, exit.TreeEvidence = true, policy.EvidenceReport
			if none, err := childless(c.worker.pid); err == nil {
				exit.TreeEmpty, exit.TreeEvidence = none, policy.EvidenceKernel
			}
		}
		clean = exit.TreeEmpty
	}
	c.end(&exit)
	for _, r := range []*reader{c.stdout, c.stderr} {
		<-r.rest
	}
	c.giveBack(c.worker, clean)
	return exit
}

// Terminate asks every process of the tree to end, by SIGTERM. They may ignore that; but what the leader leaves behind doesn't live on after it. It may be
// called at any time by anyone.
func (c *Child) Terminate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.condemned = true
	tree, err := c.tree()
	if err != nil {
		return err
	}
	return c.signal(unix.SIGTERM, tree, map[int]bool{})
}
