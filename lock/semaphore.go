package lock

import (
	"context"
	"fmt"
)

// MaxPermits is the highest limit of a Semaphore.
const MaxPermits = 100_000

// Semaphore is a lock that up to n holders have at a time: it hands out permits.
//
// Each permit is a lease of its own. One whose holder has died is free after one
// TTL: a crash leaks none. Those that wait are served in the order in which they
// came; TryLock does not overtake them. Within a client they stand in a line, of which
// up to 64 ask the store at a time, in whatever order their requests get there.
//
// The limit is that of the one who asks: a permit is granted if less than n are out
// at that moment. Clients with different n may share a key, as while a limit is being
// changed: then as many hold it as the highest of them allows, one with a low n gets
// a permit when few are out, and keeps those waiting who came after it.
//
// One Lock is one permit. There is no way to get several at once: to get them one
// by one is to hold some while waiting for others, and two who do so may wait for each
// other for ever. Fencing tokens rise with each grant, but the holders of a semaphore
// are several at a time, so a resource that refuses lower tokens lets in the last
// of them alone. It is not reentrant.
//
// It holds no state: all of one key, in any process, are the same semaphore. Its
// methods are safe for concurrent use.
type Semaphore struct {
	client *Client
	key    string
	extra  *Extra
	wrong  error // the answer to every Lock
}

var _ Locker = (*Semaphore)(nil)

// Semaphore returns the semaphore with the given key and limit: 1 to MaxPermits; see
// [Client.Mutex] for what a key may be. A limit that is out of range is the error of
// Lock, which does no IO for it.
func (c *Client) Semaphore(key string, n int) *Semaphore {
	s := &Semaphore{client: c, key: key, extra: &Extra{Limit: n}}
	if n < 1 || n > MaxPermits {
		s.wrong = failed("", key, fmt.Errorf("the limit of a semaphore must be 1 to %d, got %d", MaxPermits, n))
	}
	return s
}

// Lock waits until it has a permit. Errors are those of [Mutex.Lock], and
// errors.ErrUnsupported of a store that knows no permits.
func (s *Semaphore) Lock(ctx context.Context) (*Held, error) { return s.acquire(ctx, true) }

// TryLock gets a permit if one is free and nobody waits. If none is the error is a
// *HeldError, which matches ErrNotAcquired; the others are those of Lock.
func (s *Semaphore) TryLock(ctx context.Context) (*Held, error) { return s.acquire(ctx, false) }

// Key returns the key.
func (s *Semaphore) Key() string { return s.key }

// Limit returns the limit.
func (s *Semaphore) Limit() int { return Request{Extra: s.extra}.Limit() }

func (s *Semaphore) acquire(ctx context.Context, wait bool) (*Held, error) {
	switch {
	case s == nil:
		return nil, errZeroLock
	case s.wrong != nil:
		return nil, s.wrong
	}
	return s.client.acquire(ctx, Request{Key: s.key, Mode: Permit, Extra: s.extra}, wait)
}
