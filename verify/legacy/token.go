// Token, a lock with a random value that is compared before the lock is deleted.

package legacy

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Token is SET NX PX with a random value that is compared before the key is deleted.
// Most libraries use this lock. The Redis documentation describes it for a single
// server.
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

// TryLock returns whether it got the lock.
func (l *Token) TryLock(ctx context.Context) (bool, error) {
	return setNXPX(ctx, l.Redis, l.Key, l.Value, l.TTL)
}

// Unlock deletes the lock if it still has the value.
func (l *Token) Unlock(ctx context.Context) error {
	return l.Redis.Eval(ctx, compareAndDelete, []string{l.Key}, l.Value).Err()
}
