// SetPX, a lock with an expiry, and an Unlock that does not check the owner.

package legacy

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// SetPX takes the lock and sets its expiry with one command. It deletes the lock without
// checking the owner.
type SetPX struct {
	Redis *redis.Client
	Key   string
	TTL   time.Duration
}

// TryLock returns whether it got the lock.
func (l *SetPX) TryLock(ctx context.Context) (bool, error) {
	return setNXPX(ctx, l.Redis, l.Key, "locked", l.TTL)
}

// Unlock deletes the lock.
func (l *SetPX) Unlock(ctx context.Context) error {
	return l.Redis.Del(ctx, l.Key).Err()
}

// setNXPX sets the key if it does not exist, and returns whether it did.
func setNXPX(ctx context.Context, rdb *redis.Client, key, value string, ttl time.Duration) (bool, error) {
	err := rdb.Do(ctx, "SET", key, value, "NX", "PX", ttl.Milliseconds()).Err()
	if err == redis.Nil { //nolint:errorlint // go-redis does not wrap it
		return false, nil
	}
	return err == nil, err
}
