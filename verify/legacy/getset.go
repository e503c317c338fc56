// GetSet, a lock whose value is its expiry time by the clock of its holder.

package legacy

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// GetSet stores the time at which the lock expires, by the clock of its holder, as the
// value of the key. A process that finds this time in the past takes the lock over with
// GETSET. Of several such processes, the one that gets the old time back has the lock.
// Early versions of the Redis documentation describe it for SETNX.
type GetSet struct {
	Redis *redis.Client
	Key   string
	TTL   time.Duration
	Now   func() time.Time // the clock of this process

	until int64 // the time that it wrote, in ms
}

// TryLock returns whether it got the lock.
func (l *GetSet) TryLock(ctx context.Context) (bool, error) {
	now := l.Now().UnixMilli()
	until := now + l.TTL.Milliseconds()
	got, err := l.Redis.Do(ctx, "SETNX", l.Key, until).Bool()
	if err != nil {
		return false, err
	}
	if got {
		l.until = until
		return true, nil
	}
	old, err := l.Redis.Get(ctx, l.Key).Int64()
	if errors.Is(err, redis.Nil) {
		return false, nil // released in the meantime
	}
	if err != nil || old >= now {
		return false, err
	}
	before, err := l.Redis.Do(ctx, "GETSET", l.Key, until).Text()
	if err != nil || before != strconv.FormatInt(old, 10) {
		return false, err
	}
	l.until = until
	return true, nil
}

// Unlock deletes the lock unless its time has passed.
func (l *GetSet) Unlock(ctx context.Context) error {
	if l.Now().UnixMilli() >= l.until {
		return nil
	}
	return l.Redis.Del(ctx, l.Key).Err()
}
