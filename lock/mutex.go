package lock

import (
	"context"
	"errors"
)

// Locker is a lock: all kinds of this package are.
type Locker interface {
	// Lock waits until it has the lock or ctx ends. It returns a handle or an error.
	Lock(ctx context.Context) (*Held, error)
	// TryLock tries to get the lock without waiting for it to be free. It waits for
	// the store, though, as long as ctx and the store allow.
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

// Lock waits until it has the lock, ctx ends or the client is closed. If the store
// is a Waiter the lock is handed over to those that wait in the order in which they
// asked for it; goroutines of one client stand in a line of their own, of which the
// first has a place in the store's queue. Other stores are asked again and again,
// at intervals of Options.Backoff, by the first of that line.
//
// Of failures to reach the store a first one is tolerated, the second in a row is
// returned; in a queue they are tolerated for as long as the place there lasts. An
// error of the store ends all calls of Lock that wait for this key in this client.
//
// Errors: ErrNotAcquired, together with ctx's cause, if ctx ended, which is noticed
// at once; ErrTooMany; ErrBadKey; ErrBadTTL, or what else is wrong with the [Terms];
// ErrWrongType; ErrClosed; those of the store, and of a timer engine that is full or
// closed. A Lock that failed leaves nothing behind: its place in a queue, and what the
// store may have granted without telling, are given back in the background, or else
// end with their TTL.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, Request{Key: m.key, Mode: Exclusive}, true)
}

// TryLock gets the lock if nobody holds it or waits for it. If not the error is a
// *HeldError, which matches ErrNotAcquired; the others are those of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	if m == nil {
		return nil, errZeroLock
	}
	return m.client.acquire(ctx, Request{Key: m.key, Mode: Exclusive}, false)
}

// Key returns the key.
func (m *Mutex) Key() string { return m.key }

var (
	errZeroLock   = errors.New("lock: this lock was not made by a Client, or its Client not by New")
	errZeroClient = errors.New("lock: this Client was not made by New")
)
