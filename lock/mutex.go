// Mutex, and the keys of locks.

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Locker is a lock: all kinds of this package are. Any number of values, in any process, may stand
// for one lock. Their methods are safe for concurrent use.
type Locker interface {
	// Lock waits until it has the lock or ctx ends. It returns a handle or an error.
	Lock(ctx context.Context) (*Held, error)
	// TryLock tries to get the lock without waiting for it to be free. It waits for the store as
	// long as ctx and the store allow, and asks it a second time if the first request has no
	// answer.
	TryLock(ctx context.Context) (*Held, error)
}

// Mutex is a lock with one holder at a time.
//
// It is not reentrant: Lock and TryLock return ErrHeldByContext if ctx comes from [Held.Context] of
// a handle that holds the lock, because such a ctx ends when that handle is unlocked. Use a
// [Reentrant], or context.WithoutCancel for a task that outlives the holder.
type Mutex struct {
	client *Client
	key    string
}

var _ Locker = (*Mutex)(nil)

// Mutex returns the lock with the given key: 1 to MaxKeyLen bytes, any bytes but a '}' in front.
func (c *Client) Mutex(key string) *Mutex {
	return &Mutex{client: c, key: key}
}

// Lock waits until it has the lock, ctx ends or the client is closed. A store that waits
// (driver.Description) hands the lock over in the order of the calls; another one is asked at
// intervals of Options.Backoff. Goroutines of one client queue in the client, and only the first in
// the store.
//
// If the store cannot be reached, Lock tries once more and then returns ErrUnavailable; after a
// refusal it does so at once. Once it is queued in the store it keeps trying until its place
// expires (10 s at a TTL of 30 s). All goroutines of this client that wait for the key get the
// error.
//
// Lock notices at once that ctx has ended. Then the error matches ctx's cause and either
// ErrNotAcquired or [ErrUnavailable], which has the rule. If it matches ErrClosed too, this client
// is not closed. Other errors are ErrHeldByContext, ErrTooMany, ErrBadKey, ErrBadTTL and other
// errors of the Terms, ErrWrongType, ErrClosed, and those of a timer engine that is full or closed.
//
// What the store may have granted to a Lock that fails is released in the background, or ends with
// its TTL.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, KindMutex, driver.Request{Key: m.key}, true, nil)
}

// TryLock takes the lock if nobody holds it or waits for it. Otherwise the error is a *HeldError,
// or one of Lock. A Lock whose ctx has ended may block TryLock for about one more round trip to the
// store.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, KindMutex, driver.Request{Key: m.key}, false, nil)
}

// acquire implements observedLocker.
func (m *Mutex) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, KindMutex, driver.Request{Key: m.key}, wait, o)
}

var (
	errZeroLock   = errors.New("lock: this lock was not made by a Client, or its Client not by New")
	errZeroClient = errors.New("lock: this Client was not made by New")
)

// checkKey names what is wrong with a key. Keys may hold any bytes and are never
// changed. A leading '}' is refused because it would empty the hash tag that keeps
// the parts of a lock on one node of a Redis cluster.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("%w: it is %d bytes long, the limit is %d", ErrBadKey, len(key), MaxKeyLen)
	case key[0] == '}':
		return fmt.Errorf("%w: it begins with '}'", ErrBadKey)
	}
	return nil
}
