package lock

import (
	"context"
	"errors"
)

// Locker is a lock: all kinds of this package are.
type Locker interface {
	// Lock waits until it has the lock or ctx ends.
	Lock(ctx context.Context) (*Held, error)
	// TryLock tries to get the lock without waiting for it to be free.
	TryLock(ctx context.Context) (*Held, error)
}

// Mutex is a lock that one holder has at a time. It holds no state: any number of
// Mutexes of one key, in any process, are the same lock. It is not reentrant: a
// holder that locks again waits for itself. Its methods are safe for concurrent
// use.
type Mutex struct {
	client *Client
	key    string
}

var _ Locker = (*Mutex)(nil)

// Mutex returns the lock with the given key: 1 to MaxKeyLen bytes, any bytes but
// a '}' in front. A bad key is the error of Lock, which does no IO for it.
func (c *Client) Mutex(key string) *Mutex {
	return &Mutex{client: c, key: key}
}

// Lock waits until it has the lock, ctx ends or the client is closed. While the
// lock is taken it is tried again after Options.Backoff. Of failures to reach the
// store a first one is tolerated; the second in a row is returned.
//
// Errors: ErrNotAcquired, together with ctx's cause, if ctx ended; ErrBadKey,
// ErrBadTTL, ErrWrongType, ErrClosed; those of the store, and of a timer engine
// that is full or closed. A Lock that failed leaves nothing behind: what the store
// may have granted without telling is released in the background, or else ends
// with its TTL.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, m.key, true)
}

// TryLock gets the lock if it is free. If it is taken the error is a *HeldError,
// which matches ErrNotAcquired; the others are those of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, m.key, false)
}

// Key returns the key.
func (m *Mutex) Key() string { return m.key }

var errZeroLock = errors.New("lock: this lock was not made by a Client")
