// Confirmations of replicas.

package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// Replicas is a policy: how many replicas must confirm a lock. The zero value asks none of
// them. Confirmations make it rarer that a fail-over forgets a lock; they do not exclude it,
// because the promoted replica may be one that has not confirmed. Fencing tokens still
// protect the resource then.
//
// After the server has granted a lock, the store sends a renewal, a write and WAIT in one
// pipeline, on a connection for such pipelines alone. An acquisition takes one more round trip
// to the server and one to the replicas. The TTL counts from the sending of that renewal.
type Replicas struct {
	// Count is the number of replicas that the store waits for. 0 means that it does not
	// ask. In a cluster they are replicas of the master that has the lock.
	Count int

	// Require makes an acquisition fail if fewer have confirmed it in time, or if it is not
	// known how many have. The error is a *driver.ReplicasError, which matches
	// driver.ErrUnavailable, and the client gives the lock back at once. Without Require the number
	// is only reported, by Held.Replicas and by the Stats of the client.
	Require bool

	// Renewals asks for each batch of renewals, too. With Require, renewals that are not
	// confirmed count as failed, so that the holder is notified of a loss after the second of
	// them. Without Renewals, a replica that is promoted may have an older expiry than the
	// holder relies on.
	Renewals bool

	// Timeout is how long replicas have to confirm. It is at most an eighth of the TTL, and a
	// quarter of the time that ctx leaves. Default 1 s.
	Timeout time.Duration
}

const defaultReplicaTimeout = time.Second

func (r *Replicas) setDefaults() error {
	switch {
	case r.Count < 0 || r.Count > math.MaxInt16:
		return fmt.Errorf("redisstore: Options.Replicas.Count must be 0 to %d, got %d", math.MaxInt16, r.Count)
	case r.Timeout < 0:
		return fmt.Errorf("redisstore: Options.Replicas.Timeout must not be negative, got %v", r.Timeout)
	case r.Count == 0 && *r != Replicas{}:
		return errors.New("redisstore: Options.Replicas.Count must be set if another field of Replicas is")
	}
	r.Timeout = cmp.Or(r.Timeout, defaultReplicaTimeout)
	return nil
}

// ackCounters are the counters of [driver.ReplicaStats].
type ackCounters struct{ enough, tooFew, unanswered atomic.Uint64 }

func (c *ackCounters) stats() driver.ReplicaStats {
	return driver.ReplicaStats{Enough: c.enough.Load(), TooFew: c.tooFew.Load(), Unanswered: c.unanswered.Load()}
}

// confirm asks the replicas for a lease that was just granted. It sets
// Sent and Replicas of the lease. An error means that the lease does not count as acquired.
//
// The grant may come from another connection, and even from another client that released the
// lock. That does not matter: see redisnode/batch.go. The renewal proves that the owner still
// holds the lock on the server whose replicas are asked, which may be another one by now.
func (s *Store) confirm(ctx context.Context, l *driver.Lease) error {
	bound := min(l.TTL/2, max(s.timeout, 4*s.replicas.Timeout))
	bounded, cancel := context.WithTimeoutCause(ctx, bound, driver.NoAnswerError(bound))
	defer cancel()
	c, p := &confirmation{store: s}, s.renewals()
	p.Confirm = c
	sent := time.Now()
	outcome, err := rediskit.RenewOne(bounded, p, *l)
	if outcome == renewal.Renewed {
		l.Sent = sent
	}
	if err != nil {
		s.acks.unanswered.Add(1)
		c.err = err
	}
	if outcome == renewal.Renewed && c.err == nil {
		l.ReplicasKnown, l.Replicas = true, int32(min(c.replicas, math.MaxInt16))
	}
	short := c.short()
	switch {
	case outcome.IsLost():
		return errGoneAgain
	case short == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, driver.ErrStoreClosed):
		return err
	case s.replicas.Require:
		return short
	}
	return nil
}

// errGoneAgain means that the server does not have a lease any more that was just granted. It
// was restarted, or another server has taken over.
var errGoneAgain = fmt.Errorf("%w: the server has forgotten the lock that it had granted", driver.ErrUnavailable)

// maxTouched is how many leases of a batch are tried for a write that WAIT answers for. All but
// one may be lost.
const maxTouched = 4

// confirmation asks the replicas for renewals.
type confirmation struct {
	store    *Store
	required bool  // a renewal that too few replicas have confirmed is unknown
	replicas int   // that have confirmed, of the last node that was asked
	err      error // why replicas is not known
}

// short returns why the answer does not meet the policy of the store, or nil.
func (c *confirmation) short() error {
	want := c.store.replicas.Count
	if c.err == nil && c.replicas >= want {
		return nil
	}
	return &driver.ReplicasError{Want: want, Got: c.replicas, Err: c.err}
}

// Ask implements rediskit.Confirmer.
func (c *confirmation) Ask(ctx context.Context, b *redisconn.Batch, items []item) {
	timeout := c.store.replicas.Timeout
	for i := range items {
		timeout = min(timeout, time.Duration(items[i].TTL)*time.Millisecond/8)
	}
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/4)
	}
	var keys []*string
	for i := range items[:min(len(items), maxTouched)] {
		keys = append(keys, &items[i].State.key)
	}
	b.Acknowledge(keys, c.store.replicas.Count, timeout)
}

// Short implements rediskit.Confirmer. It counts the answer.
func (c *confirmation) Short(ctx context.Context, b *redisconn.Batch) error {
	s := c.store
	c.replicas, c.err = b.Replicas(func(err error) error { return s.redis.Explain(ctx, err) })
	switch {
	case c.err != nil:
		s.acks.unanswered.Add(1)
	case c.replicas >= s.replicas.Count:
		s.acks.enough.Add(1)
	default:
		s.acks.tooFew.Add(1)
	}
	if !c.required {
		return nil
	}
	return c.short()
}
