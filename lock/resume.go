// This file is about Resume, which makes a handle of an exported lease.

package lock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Resume returns a handle of the lease that [Held.Export] has exported, in this or another process.
// It renews the lease once; the handle is then like one of Lock, and its deadline counts from the
// sending of that request. Token, mode, members and metadata are those of the lease. The Terms of
// this client count from now on: a longer TTL extends the lease, a shorter one takes nothing away,
// and MaxHold and Fixed count from Resume. MinHold is the longer one of this client's and the
// exporter's rest at Export, and counts from the answer to Resume. The handle has no state, whatever
// the StateTTL of this client is.
//
// Until one process calls [Held.Detach], both hold the lock and renew it, and neither may call
// [RWMutex.Downgrade]. The first Unlock releases it for both. Until its next renewal tells the
// other process, by default within a third of its TTL, only the fencing token tells it from the
// next holder.
//
// If the store requires more replicas to confirm a lock than have confirmed the renewal, the error
// is ErrUnavailable; the lock is not released, and Resume can be called again.
//
// The error is ErrNotHeld if the lease is not held any more in this store, or if its writer has
// become a reader since Export; ErrBadExport, before any IO, for a string that was cut off or
// changed; ErrUnavailable if the store gave no answer, of which one failure is tolerated; the cause
// of ctx if that ended; and errors.ErrUnsupported also if this client has a MinHold that the kind
// of the lease cannot have. After an error the lease is as it was, or renewed once more. Resume
// takes at most one TTL for each of its two requests. No error shows the string.
func (c *Client) Resume(ctx context.Context, exported string) (*Held, error) {
	if c == nil || c.core == nil {
		return nil, errZeroClient
	}
	if ctx == nil {
		return nil, basic.ErrNilContext
	}
	e, err := decodeExported(exported)
	switch {
	case err != nil:
		return nil, err
	case c.wrong != nil:
		return nil, c.wrong
	}
	key, mode := e.lease.Key, e.lease.Mode
	if err := c.checkKept(mode); err != nil {
		return nil, failed("resume", key, err)
	}
	resume := func(ctx context.Context) (*Held, error) {
		held, err := c.resume(ctx, e)
		if err != nil {
			return nil, failed("resume", key, err)
		}
		return held, nil
	}
	if o := c.observe(resumeKind(mode)); o != nil {
		return o.call(ctx, key, resume)
	}
	return resume(ctx)
}

func (c *Client) resume(ctx context.Context, e *exportedLease) (*Held, error) {
	if ctx.Err() != nil {
		return nil, causeOf(ctx)
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.done()
	exporter, ok := c.store.(driver.Exporter)
	if !ok {
		return nil, errCannotExport
	}
	e.lease.TTL = c.terms.TTL
	imported, err := exporter.Import(e.lease, e.state)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, errCannotExport
	case err != nil:
		return nil, err
	}
	caller := ctx
	ctx, stop := c.whileOpen(caller)
	defer stop()
	err = &outcomeError{kind: ErrUnavailable}
	for range 1 + maxFailures {
		held, failure := c.tryResume(ctx, imported, max(e.rest, c.terms.MinHold))
		switch {
		case failure == nil:
			return held, nil
		case errors.Is(failure, ErrNotHeld), errors.Is(failure, errNotWatched), errors.Is(failure, ErrClosed), errors.Is(failure, errCannotExport):
			return nil, failure
		}
		err = failure
		if ctx.Err() != nil || errors.As(err, new(*driver.ReplicasError)) { // another try would find no more replicas
			break
		}
	}
	return nil, c.reveal(caller, err)
}

// tryResume asks the store once and registers the lease with the watchdog.
func (c *Client) tryResume(ctx context.Context, lease driver.Lease, minHold time.Duration) (*Held, error) {
	bound := c.watchdog.Validity(lease.TTL)
	ctx, cancel := context.WithTimeoutCause(ctx, bound, noAnswerError(bound))
	defer cancel()
	lease.Sent = time.Now()
	resumed, err := c.askResume(ctx, lease)
	c.health.record(err, driver.VerdictOf(err), lease.Sent, false)
	if err != nil {
		return nil, err
	}
	if minHold > 0 {
		resumed = keptUntil(resumed, time.Now().Add(minHold)) // from the arrival of the answer, as for a grant
	}
	return c.register(resumed, resumed.Sent)
}

// askResume calls Resume of the store, or Renew if the store has none. Renew does not tell whether
// a writer has become a reader since Export.
func (c *Client) askResume(ctx context.Context, lease driver.Lease) (driver.Lease, error) {
	if resumer, ok := c.store.(driver.Resumer); ok {
		resumed, err := resumer.Resume(ctx, lease)
		if !errors.Is(err, errors.ErrUnsupported) {
			return resumed, err
		}
	}
	if lease.Mode == driver.Write {
		return lease, errCannotExport
	}
	var out [1]renewal.Outcome
	err := c.store.Renew(ctx, []driver.Lease{lease}, out[:])
	switch {
	case out[0].IsLost():
		return lease, ErrNotHeld
	case out[0] == renewal.Renewed:
		return lease, nil
	}
	return lease, cmp.Or(err, error(&outcomeError{kind: ErrUnavailable}))
}
