package history

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Token is SET NX PX with a random value, which is compared before the key is
// deleted. Most libraries of today are this lock. Source of the idea: the pattern
// "distributed locks" of the Redis documentation, for a single server.
type Token struct {
	Redis *redis.Client
	Key   string
	Value string // random, of this acquisition
	TTL   time.Duration
}

const compareAndDelete = `-- compare-and-delete
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])`

// TryLock tells whether it got the lock.
func (l *Token) TryLock(ctx context.Context) (bool, error) {
	return setNXPX(ctx, l.Redis, l.Key, l.Value, l.TTL)
}

// Unlock deletes the lock if it is still its own.
func (l *Token) Unlock(ctx context.Context) error {
	return l.Redis.Eval(ctx, compareAndDelete, []string{l.Key}, l.Value).Err()
}
