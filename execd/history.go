package execd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy/engine"
)

// openLog opens the first log that no other process writes.
func openLog(c Config) (*audit.Log, error) {
	options := audit.Options{FileBytes: c.AuditFileBytes, Now: c.Now, Sign: true, Copy: c.AuditCopy, Observed: c.OnRecord}
	if c.AuditKeyFile != "" {
		data, _, err := ReadSecret(c.AuditKeyFile, 4096)
		if err != nil {
			return nil, fmt.Errorf("audit key %s: %w", c.AuditKeyFile, err)
		}
		if options.Key, err = audit.ParseKey(string(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", c.AuditKeyFile, err)
		}
	}
	for slot := 1; ; slot++ {
		dir := c.auditDir()
		if slot > 1 {
			dir += "." + strconv.Itoa(slot)
		}
		log, err := audit.Open(dir, options)
		switch {
		case err == nil:
			return log, nil
		case !errors.Is(err, audit.ErrLocked):
			return nil, err
		case slot == c.AuditSlots:
			return nil, fmt.Errorf("%w; reach the daemon that has it by its socket, or choose another directory", err)
		}
	}
}

// reloaded records a reload, and one that didn't come to be.
func (s *Service) reloaded(status engine.Status) {
	r := audit.Record{Type: audit.TypeReload, Message: status.Error, Daemon: &audit.Daemon{Revision: status.Revision}}
	result := "ok"
	if status.Stale {
		result = "stale"
	}
	s.metrics.reloads.WithLabelValues(result).Inc()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.RecordTimeout)
	defer cancel()
	if _, err := s.log.Append(ctx, r); err != nil {
		s.logger.Error("audit", "type", r.Type, "error", err)
	}
	if !status.Stale {
		s.interpreters.drain("policy was reloaded")
		s.rejudgeNetworks()
	}
}

// recordStart settles what the daemon before us left, then writes the start record: the next daemon looks no further back.
func (s *Service) recordStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.RecordTimeout)
	defer cancel()
	for _, u := range s.log.Unfinished() {
		r := audit.Record{
			Type: audit.TypeInterrupted, Exec: u.Exec, Sandbox: u.Sandbox,
			Message: fmt.Sprintf("released by record %d; its daemon ended before its outcome was known", u.Sequence),
		}
		if _, err := s.log.Append(ctx, r); err != nil {
			return err
		}
	}
	_, err := s.log.Append(ctx, audit.Record{Type: audit.TypeStart, Daemon: &audit.Daemon{
		Version: s.config.Version, PID: os.Getpid(), UID: os.Geteuid(), Kernel: s.host.Kernel, BootID: s.host.BootID,
		Tier: string(s.host.Tier()), Revision: s.engine.Status().Revision,
	}})
	return err
}

// mendLog tries a broken log again from time to time: a disk that was full needs no restart.
func (s *Service) mendLog() {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-ticker.C:
			if s.log.Err() == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
			if err := s.log.Reopen(ctx); err != nil {
				s.logger.Error("audit: still broken, nothing is released", "error", err)
			} else {
				s.logger.Info("audit: written again")
			}
			cancel()
		}
	}
}
