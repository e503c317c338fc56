// MultiLock, several Redisson locks as one.

package legacy

import (
	"context"
	"time"
)

// MultiLock takes several [Redisson] locks one after another, or none. Until it has all,
// their lease is short: twice its waiting time. Then it sets the requested lease of all
// with PEXPIRE. The protocol is that of RedissonMultiLock in Redisson 3 and 4.
type MultiLock struct {
	Members []*Redisson
	Wait    time.Duration
	Lease   time.Duration
	Now     func() time.Time
}

// TryLock returns whether it got all members. Unlike Redisson's it does not wait for a
// member that is taken.
func (l *MultiLock) TryLock(ctx context.Context) (bool, error) {
	began := l.Now()
	for i, m := range l.Members {
		got, err := m.TryLockFor(ctx, 2*l.Wait)
		if err != nil || !got || l.Now().Sub(began) >= l.Wait {
			for _, had := range l.Members[:i+1] {
				_ = had.Unlock(ctx) // has no effect on the lock that was not acquired
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
