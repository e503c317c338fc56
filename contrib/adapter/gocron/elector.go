// The Elector: one replica runs all jobs.

package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock"
)

// ErrClosed is returned by an Elector that is closed.
var ErrClosed = errors.New("gocronlock: elector is closed")

// Elector is a gocron.Elector: one of the replicas leads, and runs all jobs. Its methods are safe
// for concurrent use.
//
// An Elector has no goroutine. It tries to become the leader whenever a job is due and
// there is none, and leads from then on until Close, until the client is closed, or until the
// leadership is lost. The next leader begins with the next job that is due after that. A crashed
// leader is replaced by the first job after one TTL.
type Elector struct {
	election *lock.Election
	closing  basic.Closing

	mu         sync.Mutex // guards the fields below
	leadership *lock.Held // the latest one, nil before the first
	campaign   *campaign  // the one that is under way, or nil
	closed     bool       // Close was called
}

// campaign is one try to become the leader. All calls of IsLeader meanwhile share it.
type campaign struct {
	done      chan struct{} // closed when the fields below are set
	err       error
	abandoned bool // the try failed because its ctx ended, which means nothing to the other calls
}

// NewElector returns an Elector of the given election, whose name is that of this replica.
// It does no IO. A nil election is the error of IsLeader.
func NewElector(election *lock.Election) *Elector { return &Elector{election: election} }

// IsLeader returns nil if this replica leads. If there is no leader, this replica becomes
// the leader. A leader does no IO, other replicas ask the store.
//
// The error matches [lock.ErrNotAcquired] if another replica leads, [lock.ErrUnavailable] if the
// store gave no answer, and ErrClosed after Close. Other errors are those of
// [lock.Election.TryLock].
func (e *Elector) IsLeader(ctx context.Context) error {
	for {
		c, first, err := e.join()
		if c == nil {
			return err
		}
		if first {
			e.run(ctx, c)
			return c.err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return fmt.Errorf("gocronlock: the campaign is under way: %w", context.Cause(ctx))
		}
		if !c.abandoned {
			return c.err
		}
	}
}

// join returns the campaign that decides whether this replica leads, and whether the caller must
// run it. The campaign is nil if it is known already.
func (e *Elector) join() (c *campaign, first bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, false, ErrClosed
	case e.leadership.Valid():
		return nil, false, nil
	case e.campaign != nil:
		return e.campaign, false, nil
	}
	e.campaign = &campaign{done: make(chan struct{})}
	return e.campaign, true, nil
}

// run tries to become the leader. If the elector is closed meanwhile, it resigns.
//
// A leadership that was lost before is not unlocked: its jobs may still run, and others shall not
// lead before its TTL has passed.
func (e *Elector) run(ctx context.Context, c *campaign) {
	defer close(c.done)
	held, err := e.election.TryLock(ctx)

	e.mu.Lock()
	e.campaign = nil
	closed := e.closed
	if err == nil && !closed {
		e.leadership = held
	}
	e.mu.Unlock()

	switch {
	case err != nil:
		c.err = fmt.Errorf("gocronlock: this replica does not lead: %w", err)
		c.abandoned = ctx.Err() != nil
	case closed:
		c.err = errors.Join(ErrClosed, held.Unlock(ctx))
	}
}

// Held returns the handle of the latest leadership of this replica, or nil if it has never led.
// Its Token is the term; a job sends it with its writes. Its context ends when the leadership is
// lost. The methods of a nil handle are those of a lock that is not held.
func (e *Elector) Held() *lock.Held {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leadership
}

// Close resigns, if this replica leads. From then on IsLeader returns ErrClosed, and another
// replica can lead. Shut the scheduler down first; otherwise its jobs run beside those of the
// next leader. Close of the client resigns, too.
//
// Close is idempotent: every call waits until the first has returned, or until its own ctx ends,
// and returns the same result. Errors are those of [lock.Held.Unlock].
func (e *Elector) Close(ctx context.Context) error {
	return e.closing.Do(ctx, func() error {
		e.mu.Lock()
		e.closed = true
		c, leadership := e.campaign, e.leadership
		e.mu.Unlock()
		if c != nil { // it resigns by itself
			if err := basic.Await(ctx, c.done); err != nil {
				return err
			}
		}
		if leadership.Err() != nil { // it was lost before, or the client is closed
			return nil
		}
		return leadership.Unlock(ctx)
	})
}
