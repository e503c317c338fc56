// Redlock, a lock on the majority of several servers.

package legacy

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redlock takes a [Token] lock on several independent servers. It has the lock if it got
// a majority before the TTL ended. The algorithm is described by Salvatore Sanfilippo,
// "Distributed locks with Redis", Redis documentation, and its weaknesses by Martin
// Kleppmann, "How to do distributed locking", 2016.
type Redlock struct {
	Servers []*redis.Client
	Key     string
	Value   string // random, of this acquisition
	TTL     time.Duration
	Now     func() time.Time // the monotonic clock of this process
}

// TryLock returns how long the lock is valid, or 0 if it did not get it. A server that
// does not answer counts as a refusal.
func (l *Redlock) TryLock(ctx context.Context) time.Duration {
	began := l.Now()
	got := 0
	for _, rdb := range l.Servers {
		if ok, err := setNXPX(ctx, rdb, l.Key, l.Value, l.TTL); ok && err == nil {
			got++
		}
	}
	drift := l.TTL/100 + 2*time.Millisecond
	validity := l.TTL - l.Now().Sub(began) - drift
	if got > len(l.Servers)/2 && validity > 0 {
		return validity
	}
	_ = l.Unlock(ctx) // its locks would also expire
	return 0
}

// Unlock releases the lock on all servers.
func (l *Redlock) Unlock(ctx context.Context) error {
	var errs []error
	for _, rdb := range l.Servers {
		errs = append(errs, rdb.Eval(ctx, compareAndDelete, []string{l.Key}, l.Value).Err())
	}
	return errors.Join(errs...)
}
