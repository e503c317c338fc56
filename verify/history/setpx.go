package history

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// SetPX takes the lock and gives it an end in one command, and deletes it whoever
// has it. Source of the idea: the options NX and PX of the command SET.
type SetPX struct {
	Redis *redis.Client
	Key   string
	TTL   time.Duration
}

// TryLock tells whether it got the lock.
func (l *SetPX) TryLock(ctx context.Context) (bool, error) {
	return setNXPX(ctx, l.Redis, l.Key, "locked", l.TTL)
}

// Unlock deletes the lock.
func (l *SetPX) Unlock(ctx context.Context) error {
	return l.Redis.Del(ctx, l.Key).Err()
}

// setNXPX tells whether the key was free and now has the value.
func setNXPX(ctx context.Context, rdb *redis.Client, key, value string, ttl time.Duration) (bool, error) {
	err := rdb.Do(ctx, "SET", key, value, "NX", "PX", ttl.Milliseconds()).Err()
	if err == redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return false, nil
	}
	return err == nil, err
}
