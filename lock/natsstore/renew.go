// Renew.

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Renew implements [renewal.Renewer]. It sends the messages of all leases before it waits for the
// first answer.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if err := s.begin(ctx, driver.Exclusive); err != nil {
		return err
	}
	messages := make([]pending, len(batch))
	for i, l := range batch {
		messages[i] = s.send(ctx, l)
	}
	var errs error
	for i, l := range batch {
		outcome, err := s.outcome(ctx, l, messages[i])
		out[i] = outcome
		if err != nil {
			errs = err // one is enough, because they have one cause as a rule
		}
	}
	if s.hasClosed(errs) {
		return driver.ErrStoreClosed
	}
	errs = because(s.js, s.of, errs)
	if errs != nil && ctx.Err() == nil {
		errs = fmt.Errorf("natsstore: renew %d leases: %w", len(batch), errs)
	}
	return errs
}

// pending is a renewal whose answer has not been read.
type pending struct {
	ack   jetstream.PubAckFuture
	after uint64 // the message that it comes after
	meta  []byte // the metadata in the message
	sent  time.Time
	err   error // it was not sent
}

// send sends the message that renews a lease, unless its state is not known. The renewal is under way
// until outcome returns.
func (s *Store) send(ctx context.Context, l driver.Lease) pending {
	state := stateOf(l)
	if state != nil {
		state.beginRenewal()
	}
	switch {
	case ctx.Err() != nil: // publishing blocks while the connection takes no bytes
		return pending{err: context.Cause(ctx)}
	case state == nil:
		return pending{err: errConflict}
	}
	seq, meta, ttl := state.next(l.TTL)
	now := time.Now()
	m := s.message(l.Key, renewed(l, meta, ttl), ttl, seq, "")
	ack, err := s.js.PublishMsgAsync(m, jetstream.WithExpectStream(s.of.Stream))
	return pending{ack: ack, after: seq, meta: meta, sent: now, err: err}
}

// renewed returns the record of a lease that was renewed for ttl.
func renewed(l driver.Lease, meta []byte, ttl time.Duration) record {
	return record{State: held, Owner: l.Owner, Token: l.Token, TTL: ttl.Milliseconds(), Metadata: meta}
}

// outcome waits for the answer to a renewal.
func (s *Store) outcome(ctx context.Context, l driver.Lease, m pending) (renewal.Outcome, error) {
	state := stateOf(l)
	if state != nil {
		defer state.endRenewal()
	}
	err := m.err
	if err == nil {
		select {
		case ack := <-m.ack.Ok():
			state.stored(m.after, ack.Sequence, m.meta, m.sent, l.TTL)
			return renewal.Renewed, nil
		case err = <-m.ack.Err():
			err = publishError(ctx, err)
		case <-s.calls.Ctx.Done():
			err = driver.ErrStoreClosed
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if !errors.Is(err, errConflict) {
		return renewal.Unknown, err
	}
	return s.renewAgain(ctx, l, attempts{used: 1, after: m.after})
}

// renewAgain reads the lock and renews it, because its last message is not the one that the lease
// knows: an answer was lost, the metadata has changed, or the lease has ended.
func (s *Store) renewAgain(ctx context.Context, l driver.Lease, a attempts) (renewal.Outcome, error) {
	ctx, cancel := bound(ctx, s.bound)
	defer cancel()
	outcome := renewal.Unknown
	done, err := s.replace(ctx, l.Key, a, func(cur entry) (record, time.Duration, error) {
		switch {
		case cur.isFree(), cur.State == kept:
			outcome = renewal.LostMissing
		case !cur.isOf(l):
			outcome = renewal.LostTaken
		default:
			ttl := max(l.TTL, stateOf(l).rest(cur))
			return renewed(l, cur.Metadata, ttl), ttl, nil
		}
		return record{}, 0, driver.ErrNotHeld
	})
	switch {
	case err == nil:
		stateOf(l).stored(done.cur.seq, done.seq, done.cur.Metadata, done.sent, l.TTL)
		return renewal.Renewed, nil
	case errors.Is(err, driver.ErrWrongType):
		return renewal.LostTaken, nil
	case outcome.IsLost():
		return outcome, nil
	}
	return renewal.Unknown, err
}
