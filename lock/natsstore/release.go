// Release and tombstones.

package natsstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Release implements [driver.Store]. It reads the lock only if the last message is not the one that the lease knows.
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	return s.call(ctx, driver.Exclusive, "release", func(ctx context.Context) error { return s.release(ctx, l) })
}

func (s *Store) release(ctx context.Context, l driver.Lease) error {
	if l.Unanswered {
		if err := s.addTombstone(ctx, l.Owner); err != nil {
			return err
		}
	} else if state := stateOf(l); state != nil {
		seq, _, _ := state.next(0)
		rec, ttl := endOf(l, l.Token)
		if _, err := s.publish(ctx, s.message(l.Key, rec, ttl, seq, "")); !errors.Is(err, errConflict) {
			return s.announced(l.Key, err)
		}
	}
	_, err := s.replace(ctx, l.Key, attempts{}, func(cur entry) (record, time.Duration, error) {
		if !cur.heldBy(l.Owner) {
			return record{}, 0, driver.ErrNotHeld
		}
		rec, ttl := endOf(l, cur.Token)
		return rec, ttl, nil
	})
	return s.announced(l.Key, notHeld(err))
}

// endOf returns the record that ends a lease, and its TTL: it frees the lock, or keeps it taken by nobody.
func endOf(l driver.Lease, token uint64) (record, time.Duration) {
	if keep := l.Keep(); keep > 0 {
		return record{State: kept, Token: token, TTL: keep.Milliseconds()}, keep
	}
	return record{State: free, Token: token}, markerTTL
}

// addTombstone makes sure that no message of the owner which takes a lock is stored any more. Such a
// message may still be under way. It has the first id that the server has not stored, and the
// tombstone gets that id before it. The tombstone also keeps out an Acquire that begins later.
func (s *Store) addTombstone(ctx context.Context, owner string) error {
	for stored := range maxConflicts {
		m := nats.NewMsg(s.tombstone(owner))
		m.Header.Set(jetstream.MsgIDHeader, takeID(owner, stored))
		m.Header.Set(jetstream.MsgTTLHeader, tombstoneTTL.String())
		if ack, err := s.publish(ctx, m); err != nil || !ack.Duplicate {
			return err
		}
	}
	return nil // no id is left
}
