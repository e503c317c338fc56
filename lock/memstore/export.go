package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

var (
	_ driver.Exporter = (*Store)(nil)
	_ driver.Resumer  = (*Store)(nil)
)

// Export implements [driver.Exporter]. A lease can be taken over by another client of the
// same Store only.
func (s *Store) Export(driver.Lease) ([]byte, error) { return nil, nil }

// Import implements [driver.Exporter].
func (s *Store) Import(l driver.Lease, state []byte) (driver.Lease, error) {
	if len(state) > 0 {
		return driver.Lease{}, errors.New("memstore: the lease is of another store")
	}
	return l, nil
}

// Resume implements [driver.Resumer].
func (s *Store) Resume(ctx context.Context, l driver.Lease) (driver.Lease, error) {
	if err := basic.Cause(ctx); err != nil {
		return driver.Lease{}, err
	}
	l.Sent = time.Now()
	k, now, err := s.lock(l.Key, 0)
	if err != nil {
		return driver.Lease{}, err
	}
	if k == nil {
		return driver.Lease{}, driver.ErrNotHeld
	}
	defer s.unlock(k)
	h := k.holders.find(l.Owner)
	if h == nil || h.token != l.Token || !h.allows(&l.Request) {
		return driver.Lease{}, driver.ErrNotHeld
	}
	k.holders.extend(h, now.Add(l.TTL))
	return l, nil
}

// allows reports whether the lease is all that a request for it says. A writer is a reader, too.
func (h *holder) allows(r *driver.Request) bool {
	sameMode := h.mode == r.Mode || h.mode == driver.Write && r.Mode == driver.Read
	return sameMode && h.permits == r.Permits() && len(h.members) == len(r.Members())
}
