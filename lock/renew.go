// Renew, which renews a lock now, also with another TTL.

package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Renew renews the lock now. Now and later the lease has the given TTL; 0 keeps its TTL. A lock
// with Terms.Fixed then ends one TTL from now. The deadline never moves back, and the end of
// MaxHold does not move.
//
// Renew returns nil if the store has confirmed that the lock is still held. The error matches
// ErrLost if the store has denied the ownership or the lease has ended, ErrNotHeld after Unlock,
// ErrClosed after the client's Close, and ErrBadTTL, before any IO, if the TTL is refused. After
// any other error, ErrUnavailable or the cause of ctx, the lock is held and renewed as before. One
// failure to reach the store is tolerated, and Renew returns at the deadline of the lease at the
// latest.
func (h *Held) Renew(ctx context.Context, ttl time.Duration) error {
	switch {
	case !h.ok():
		return ErrNotHeld
	case ctx == nil:
		return failed("renew", h.Key(), basic.ErrNilContext)
	case h.used.Load():
		return failed("renew", h.Key(), ErrNotHeld)
	}
	return h.handle.renewNow(ctx, ttl)
}

func (s *heldLease) renewNow(ctx context.Context, ttl time.Duration) error {
	lease := s.entry.Lease()
	if ttl != 0 {
		lease.TTL = ttl.Truncate(time.Millisecond)
	}
	terms := s.client.terms
	terms.TTL = lease.TTL
	if err := cmp.Or(checkTTL("the TTL", lease.TTL), s.client.checkTTL(terms), s.state()); err != nil {
		return failed("renew", lease.Key, err)
	}
	err := s.renew(ctx, lease)
	if err == nil {
		return nil
	}
	if denied := lossIn(err); denied != nil && denied.Reason == renewal.ReasonNotOwned {
		s.entry.ReportLost(denied.Err)
	}
	return failed("renew", lease.Key, cmp.Or(s.state(), s.client.reveal(ctx, err)))
}

// renew renews the lease once, with the TTL of the argument.
func (s *heldLease) renew(ctx context.Context, lease driver.Lease) error {
	return s.twice(ctx, func(ctx context.Context) (answered bool, err error) {
		sent, outcome, err := s.client.renewOnce(ctx, lease)
		switch {
		case outcome.IsLost():
			return true, &renewal.LostError{Reason: renewal.ReasonNotOwned, Err: err}
		case outcome == renewal.Renewed:
			return true, s.confirm(lease.TTL, sent)
		}
		return false, err
	})
}

// renewOnce asks the store once to renew a lease. If there is no outcome, it returns an error.
func (c *core) renewOnce(ctx context.Context, lease driver.Lease) (sent time.Time, outcome renewal.Outcome, err error) {
	sent = time.Now()
	var out [1]renewal.Outcome
	err = c.store.Renew(ctx, []driver.Lease{lease}, out[:])
	if out[0] == renewal.Unknown {
		err = cmp.Or(err, error(errNoAnswerInTime))
	}
	c.health.record(err, driver.VerdictOf(err), sent, false)
	return sent, out[0], err
}

var errNoAnswerInTime = &outcomeError{kind: ErrUnavailable}

// twice calls f for a request of the holder, while the lease lasts, and again if there is no
// answer. A call that hangs leaves half of the time to the second one. Without an answer, twice
// returns the latest error.
func (s *heldLease) twice(ctx context.Context, f func(ctx context.Context) (answered bool, err error)) error {
	if !s.client.gate.Enter() {
		return ErrClosed
	}
	defer s.client.gate.Leave()
	ctx, stop := s.client.whileOpen(ctx)
	defer stop()
	ctx, cancel := context.WithDeadline(ctx, s.entry.Deadline())
	defer cancel()
	var failure error = errNoAnswerInTime
	for tries := 1 + maxFailures; ; tries-- {
		bounded, cancel := context.WithTimeoutCause(ctx, time.Until(s.entry.Deadline())/time.Duration(tries), errNoAnswerInTime)
		answered, err := f(bounded)
		cancel()
		if answered {
			return err
		}
		if failure = cmp.Or(err, failure); tries == 1 || ctx.Err() != nil {
			return failure
		}
	}
}

// confirm reports a renewal with that TTL to the watchdog.
func (s *heldLease) confirm(ttl time.Duration, sent time.Time) error {
	grant := renewal.Grant{TTL: ttl, Sent: sent} // the end of MaxHold does not move
	if s.client.terms.Fixed {
		grant.Until = sent.Add(s.client.watchdog.Validity(ttl))
	}
	err := s.entry.Update(grant, func(l driver.Lease) driver.Lease {
		l.TTL = ttl
		return l
	})
	if err != nil {
		return cmp.Or(s.state(), err)
	}
	return nil
}
