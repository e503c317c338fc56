// Release.

package zkstore

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Release implements [driver.Store]. A Release with Unanswered is remembered by this Store only: the
// requests of a session are executed in order, so no other Store has a late Acquire of the owner.
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	return s.call(ctx, "release", func(ctx context.Context) error {
		if l.Unanswered {
			s.giveUp(l.Owner)
		}
		return s.clientOf(leaseKey{l.Key, l.Owner}).release(ctx, l)
	})
}

func (s *client) release(ctx context.Context, l driver.Lease) error {
	k := leaseKey{l.Key, l.Owner}
	if path := s.heldPath(k); path != "" && !l.Unanswered {
		err := s.remove(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = driver.ErrNotHeld
			fallthrough
		case err == nil:
			s.forget(path)
		}
		return err
	}
	if err := s.settle(ctx, k); err != nil {
		return err
	}
	all, err := s.fresh(ctx, l.Key)
	if err != nil && !errors.Is(err, driver.ErrWrongType) {
		return err
	}
	held, had := holders(all), false
	for i, n := range all {
		if n.owner != l.Owner {
			continue
		}
		path := s.lockPath(l.Key) + "/" + n.name
		err := s.remove(ctx, path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		s.forget(path)
		had = had || i < held && err == nil
	}
	if !had {
		return driver.ErrNotHeld
	}
	return nil
}

// heldPath returns the path of a lease that this store holds, "" if it holds none.
func (s *Store) heldPath(k leaseKey) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.records[k]; rec != nil && rec.token != 0 {
		return rec.path
	}
	return ""
}
