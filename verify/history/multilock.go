package history

import (
	"context"
	"time"
)

// MultiLock takes several locks of [Redisson], one after another, or none. While it
// does so they have a short lease, twice as long as it is ready to wait; when it has
// all it gives all the lease that was asked for, by PEXPIRE. Source of the protocol:
// RedissonMultiLock of Redisson 3 and 4.
type MultiLock struct {
	Members []*Redisson
	Wait    time.Duration
	Lease   time.Duration
	Now     func() time.Time
}

// TryLock tells whether it got all. A member that is taken is not waited for here:
// what goes wrong needs no waiting.
func (l *MultiLock) TryLock(ctx context.Context) (bool, error) {
	began := l.Now()
	for i, m := range l.Members {
		got, err := m.TryLockFor(ctx, 2*l.Wait)
		if err != nil || !got || l.Now().Sub(began) >= l.Wait {
			for _, had := range l.Members[:i+1] {
				_ = had.Unlock(ctx) // answers that it has nothing for the one it did not get
			}
			return false, err
		}
	}
	for _, m := range l.Members {
		if err := m.Redis.PExpire(ctx, m.Key, l.Lease).Err(); err != nil {
			return false, err
		}
	}
	return true, nil
}
