package memstore

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

var _ lock.Inspector = (*Store)(nil)

const mostShown = 16 // holders

// Inspect implements [lock.Inspector]. The last token of a key is forgotten when
// nobody holds it or waits for it.
func (s *Store) Inspect(ctx context.Context, key string) (lock.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unfit(ctx); err != nil {
		return lock.Info{}, err
	}
	now := time.Now()
	k := s.at(key, now)
	if k == nil {
		return lock.Info{}, nil
	}
	info := lock.Info{Held: len(k.holders), Waiting: k.queue.Len(), Token: k.granted}
	for _, h := range k.holders[:min(len(k.holders), mostShown)] {
		info.Holders = append(info.Holders, lock.Holder{
			Mode: h.mode, Token: h.token, ExpiresIn: h.until.Sub(now), Metadata: h.metadata, Members: len(h.members),
		})
	}
	return info, nil
}

// ForceRelease implements [lock.Inspector].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unfit(ctx); err != nil {
		return err
	}
	if !s.seize(key) {
		return lock.ErrNotHeld
	}
	return nil
}

// unfit returns why nothing is asked of the store any more: ctx has ended, or the store
// is closed. The caller holds mu.
func (s *Store) unfit(ctx context.Context) error {
	if err := endOf(ctx); err != nil {
		return err
	}
	if s.closed {
		return lock.ErrClosed
	}
	return nil
}
