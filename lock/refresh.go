package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// freshPart of a TTL is the age up to which a lease counts as new.
const freshPart = 100

// refresh renews a lease that is not new any more, while the others of a Multi were
// got. The store does so only for its owner. A first failure to reach it is
// tolerated.
func (s *holding) refresh(ctx context.Context) error {
	lease := s.entry.Lease()
	if time.Since(lease.Sent) <= lease.TTL/freshPart {
		return nil
	}
	err := s.renew(ctx, lease)
	if err == nil {
		return nil
	}
	return failed("", lease.Key, fmt.Errorf("%w: %w", ErrNotAcquired, err))
}

func (s *holding) renew(ctx context.Context, lease Lease) error {
	if err := s.client.begin(); err != nil {
		return err
	}
	defer s.client.done()
	ctx, stop := s.client.whileOpen(ctx)
	defer stop()
	err := errors.New("the store has not answered")
	for range 1 + tolerated {
		sent := time.Now()
		var out [1]renewal.Outcome
		failure := s.client.store.Renew(ctx, []Lease{lease}, out[:])
		switch {
		case out[0] == renewal.Lost:
			s.giveSeatUp()
			return &renewal.LostError{Reason: renewal.NotOwned, Err: failure}
		case out[0] == renewal.Renewed && s.confirm(s.entry, sent):
			return nil
		case out[0] == renewal.Renewed:
			return s.state()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		err = cmp.Or(failure, err)
	}
	return err
}

// confirm tells the watchdog of a lease that was given its full TTL again.
func (s *holding) confirm(entry *renewal.Entry[Lease], sent time.Time) bool {
	var until time.Time // that of a maximum hold stays
	if s.client.terms.Fixed {
		until = sent.Add(s.client.dog.Life(entry.Lease().TTL))
	}
	return entry.Confirm(sent, until)
}
