package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// holding is one lease of the store, under the watchdog, and how many handles
// there are for it. The server knows nothing of that number: a number there could
// be overtaken by an older message.
type holding struct {
	client *Client
	entry  *renewal.Entry[Lease]

	handles atomic.Int32 // that were not unlocked; at 0 the lease is released
	left    atomic.Bool  // the first handle was unlocked while there were others

	seat *seat       // nil: the lock is not passed on within the client
	rise func() bool // keeps the end of the lease from giving the seat up
}

// unlockTimeout bounds one Unlock.
const unlockTimeout = 3 * time.Second

// newHeld returns the first handle of a lease.
func newHeld(c *Client, entry *renewal.Entry[Lease]) *Held {
	return &Held{hold: newHolding(c, entry)}
}

func newHolding(c *Client, entry *renewal.Entry[Lease]) *holding {
	s := &holding{client: c, entry: entry}
	s.handles.Store(1)
	return s
}

// unlock is that of the first handle.
func (s *holding) unlock(ctx context.Context) error {
	last, err := s.leave(ctx)
	if err == nil && !last {
		s.left.Store(true)
	}
	return err
}

// leave counts a handle out. The last one releases the lease.
func (s *holding) leave(ctx context.Context) (last bool, err error) {
	err = s.state() // before others can leave, too
	if s.handles.Add(-1) == 0 {
		last, err = true, s.release(ctx)
	}
	if err != nil {
		err = failed("unlock", s.key(), err)
	}
	return last, err
}

// release passes the lock on within the client, or ends the lease.
func (s *holding) release(ctx context.Context) error {
	if err := s.client.begin(); err != nil { // Close releases it, if it was not lost before
		return cmp.Or(s.state(), err)
	}
	defer s.client.done()
	s, passed := s.passOn()
	if passed {
		return nil
	}
	if s.seat != nil {
		s.rise()
		defer s.seat.leave() // behind those who wait in other processes
	}
	lease := s.entry.Lease()
	if !s.entry.Stop() {
		return s.releaseEnded(lease)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(unlockTimeout, lease.TTL))
	defer cancel()
	return s.client.release(ctx, lease)
}

// releaseEnded is release of a lease that has ended. It may still be there on the
// store, where it would keep others waiting to the end of its TTL.
func (s *holding) releaseEnded(lease Lease) error {
	err := s.state()
	var lost *renewal.LostError
	gone := errors.As(err, &lost) && lost.Reason == renewal.NotOwned
	if !gone || lease.Unanswered { // then a request of the owner may yet take it again
		s.client.cleaner.add(lease)
	}
	return err
}

// release gives a lease back that was held until now. A first try without an
// answer is repeated; then an answer of ErrNotHeld means that the first one was
// executed.
func (c *core) release(ctx context.Context, lease Lease) error {
	err := c.store.Release(ctx, lease)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotHeld):
		return &renewal.LostError{Reason: renewal.NotOwned, Err: err}
	}
	if ctx.Err() == nil {
		if again := c.store.Release(ctx, lease); again == nil || errors.Is(again, ErrNotHeld) {
			return nil
		}
	}
	c.cleaner.add(lease)
	return fmt.Errorf("not confirmed yet: %w", err)
}

// state is nil while the lease is held, by whatever handle, and then says why not.
func (s *holding) state() error {
	err := s.entry.Err()
	switch {
	case errors.Is(err, renewal.ErrStopped):
		return ErrNotHeld
	case errors.Is(err, renewal.ErrClosed):
		return ErrClosed
	}
	return err
}

func (s *holding) err() error {
	if s.left.Load() {
		return ErrNotHeld
	}
	return s.ended()
}

// ended is state for those who do not say of which lock they speak: a loss names the
// key. It is no pointer, so that what is told twice is equal.
func (s *holding) ended() error {
	err := s.state()
	if errors.Is(err, ErrLost) {
		return keyError{key: s.key(), err: err}
	}
	return err
}

func (s *holding) valid() bool { return !s.left.Load() && s.entry.Valid() }

// done and afterFunc tell of the end of the lease, which for a first handle that
// was unlocked before others comes later than its own.
func (s *holding) done() <-chan struct{}                 { return s.entry.Done() }
func (s *holding) afterFunc(f func()) (stop func() bool) { return s.entry.AfterFunc(f) }

func (s *holding) deadline() time.Time {
	if s.left.Load() {
		return time.Time{}
	}
	return s.entry.Deadline()
}

func (s *holding) token() uint64        { return s.entry.Lease().Token }
func (s *holding) key() string          { return s.entry.Lease().Key }
func (s *holding) names() []string      { return s.entry.Lease().Members() }
func (s *holding) logger() *slog.Logger { return s.client.logger }
func (s *holding) String() string       { return s.entry.Lease().String() }
