package execd

import (
	"context"
	"errors"
	"os"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// Close kills what runs, waits until that is recorded, closes every sandbox, writes the stop record and seals the log. ctx bounds the wait for the walks.
func (s *Service) Close(ctx context.Context) error {
	var err error
	s.closed.Do(func() { err = s.close(ctx) })
	return err
}

func (s *Service) close(ctx context.Context) error {
	s.beginStop()
	var wrong []error
	walked := make(chan struct{})
	go func() { s.walks.Wait(); close(walked) }()
	select {
	case <-walked:
	case <-ctx.Done():
		wrong = append(wrong, errors.New("stop: some requests have not ended in time"))
	}
	s.chores.Wait()
	s.sandboxes.closeAll()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.RecordTimeout)
	defer cancel()
	if err := s.log.Err(); errors.Is(err, audit.ErrStalled) {
		wrong = append(wrong, err)
	} else if _, err := s.log.Note(bounded, audit.Record{Type: audit.TypeStop}); err != nil { // durable with the checkpoint that closing it makes
		wrong = append(wrong, err)
	}
	return errors.Join(append(wrong, s.giveUp())...)
}

// beginStop lets no walk begin any more and ends those on their way.
func (s *Service) beginStop() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.die()
}

func (s *Service) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing || s.draining
}

// giveUp closes what is open.
func (s *Service) giveUp() error {
	var wrong []error
	if s.engine != nil {
		wrong = append(wrong, s.engine.Close())
	}
	if s.log != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.config.RecordTimeout)
		defer cancel()
		wrong = append(wrong, s.log.CloseWithin(ctx))
	}
	if s.group != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.config.KillTimeout)
		defer cancel()
		if err := s.group.Destroy(ctx); !errors.Is(err, os.ErrNotExist) {
			wrong = append(wrong, err) // one that somebody has removed is as good
		}
	}
	s.ids.close()
	if s.binary != nil {
		wrong = append(wrong, s.binary.Close())
	}
	return errors.Join(wrong...)
}
