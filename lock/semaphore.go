// Semaphore.

package lock

import (
	"context"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Semaphore is a lock of n permits. Each holder has one of them, or several (see
// [Semaphore.WithPermits]), and a lease of its own. It is not reentrant. Two callers that acquire
// several permits one by one may deadlock.
//
// Waiters are served in order. Up to 64 requests of one client are sent at a time, and may arrive
// in any order. Each request is judged by its own n: if clients with different n share a key, up to
// the larger number of permits may be held.
type Semaphore struct {
	client *Client
	key    string
	extra  *driver.Attrs
	wrong  error // the error of every Lock
}

var _ Locker = (*Semaphore)(nil)

// Semaphore returns the semaphore with the given key (see [Client.Mutex]) and a limit of 1 to
// MaxPermits.
func (c *Client) Semaphore(key string, n int) *Semaphore {
	s := &Semaphore{client: c, key: key, extra: &driver.Attrs{Limit: n}}
	if n < 1 || n > MaxPermits {
		s.wrong = failed("", key, fmt.Errorf("the limit of a semaphore must be 1 to %d, got %d", MaxPermits, n))
	}
	return s
}

// WithPermits returns a semaphore whose Lock and TryLock acquire n permits together, all or none,
// as one lease. n must be 1 to the limit.
func (s *Semaphore) WithPermits(n int) *Semaphore {
	if s == nil {
		return nil
	}
	wanted := *s
	if limit := s.limit(); s.client != nil && s.wrong == nil && (n < 1 || n > limit) {
		wanted.wrong = failed("", s.key, fmt.Errorf("the number of permits must be 1 to the limit of %d, got %d", limit, n))
	}
	if n > 1 {
		wanted.extra = &driver.Attrs{Limit: s.limit(), Permits: n}
	}
	return &wanted
}

// Lock is [Mutex.Lock] for a permit.
func (s *Semaphore) Lock(ctx context.Context) (*Held, error) { return s.acquire(ctx, true, nil) }

// TryLock is [Mutex.TryLock] for a permit.
func (s *Semaphore) TryLock(ctx context.Context) (*Held, error) { return s.acquire(ctx, false, nil) }

func (s *Semaphore) limit() int { return driver.Request{Attrs: s.extra}.Limit() }

func (s *Semaphore) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	switch {
	case s == nil:
		return nil, errZeroLock
	case s.wrong != nil:
		return nil, s.wrong
	}
	return s.client.acquire(ctx, KindSemaphore, driver.Request{Key: s.key, Mode: driver.Permit, Attrs: s.extra}, wait, o)
}
