// Release, ReleaseAll and tombstones.

package natsstore

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	bounded, cancel := bound(ctx, s.bound)
	defer cancel()
	return s.failed(ctx, "release", l.Key, s.release(bounded, l))
}

func (s *Store) release(ctx context.Context, l driver.Lease) error {
	if err := s.begin(ctx, driver.Exclusive); err != nil {
		return err
	}
	if l.Unanswered {
		if err := s.addTombstone(ctx, l.Owner); err != nil {
			return err
		}
	}
	for a := (attempts{}); ; {
		cur, err := s.last(ctx, l.Key)
		switch {
		case err != nil && !errors.Is(err, driver.ErrWrongType):
			return err
		case err != nil || !cur.heldBy(l.Owner):
			return driver.ErrNotHeld
		}
		if err := a.next(ctx, cur.seq); err != nil {
			return err
		}
		_, err = s.publish(ctx, s.endMessage(l, cur))
		if err == nil {
			s.announce(l.Key)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
	}
}

// endMessage returns the message that ends a lease: it frees the lock, or keeps it taken by nobody.
func (s *Store) endMessage(l driver.Lease, cur entry) *nats.Msg {
	if keep := l.Keep(); keep > 0 {
		return s.message(l.Key, record{State: kept, Token: cur.Token, TTL: keep.Milliseconds()}, keep, cur.seq, "")
	}
	return s.message(l.Key, record{State: free, Token: cur.Token}, markerTTL, cur.seq, "")
}

// addTombstone makes sure that no message of the owner which takes a lock is stored any more. Such a
// message may still be under way. It has the first id that the server has not stored, and the
// tombstone gets that id before it. The tombstone also keeps out an Acquire that begins later.
func (s *Store) addTombstone(ctx context.Context, owner string) error {
	for stored := range maxConflicts {
		duplicate, err := s.publishTombstone(ctx, owner, takeID(owner, stored))
		if err != nil || !duplicate {
			return err
		}
	}
	return nil // no id is left
}

func (s *Store) publishTombstone(ctx context.Context, owner, id string) (duplicate bool, err error) {
	m := nats.NewMsg(s.tombstone(owner))
	m.Header.Set(jetstream.MsgIDHeader, id)
	m.Header.Set(jetstream.MsgTTLHeader, tombstoneTTL.String())
	ack, err := s.publish(ctx, m)
	if err != nil {
		return false, err
	}
	return ack.Duplicate, nil
}

// ReleaseAll implements [driver.Store]. It sends the messages of all leases whose state is
// known before it waits for the first answer, and calls Release for the others.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	if ctx.Err() != nil {
		for i := range batch {
			out[i] = context.Cause(ctx)
		}
		return nil
	}
	if err := s.begin(ctx, driver.Exclusive); err != nil {
		return err
	}
	messages := make([]pending, len(batch))
	for i, l := range batch {
		state := stateOf(l)
		if state == nil || l.Unanswered {
			messages[i].err = errConflict
			continue
		}
		seq, _, _ := state.next(0)
		ack, err := s.js.PublishMsgAsync(s.endMessage(l, entry{seq: seq, record: record{Token: l.Token}}), jetstream.WithExpectStream(s.of.Stream))
		messages[i] = pending{ack: ack, err: err}
	}
	for i, l := range batch {
		out[i] = s.released(ctx, l, messages[i])
	}
	return nil
}

// released waits for the answer to the message that ends a lease.
func (s *Store) released(ctx context.Context, l driver.Lease, m pending) error {
	err := m.err
	if err == nil {
		select {
		case <-m.ack.Ok():
			s.announce(l.Key)
			return nil
		case err = <-m.ack.Err():
			err = publishError(ctx, err)
		case <-s.closing:
			err = driver.ErrStoreClosed
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if errors.Is(err, errConflict) {
		return s.Release(ctx, l)
	}
	return s.failed(ctx, "release", l.Key, err)
}
