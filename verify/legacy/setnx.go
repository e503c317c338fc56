// SetNX, a lock whose expiry is set by a second command.

package legacy

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// SetNX takes the lock with one command and sets its expiry with a second one. It was
// the usual lock before Redis 2.6.12 added options to SET, and is still found in
// tutorials.
type SetNX struct {
	Redis *redis.Client
	Key   string
	Value string // random, of this acquisition
	TTL   time.Duration
}

// TryLock returns whether it got the lock.
func (l *SetNX) TryLock(ctx context.Context) (bool, error) {
	got, err := l.Redis.Do(ctx, "SETNX", l.Key, l.Value).Bool()
	if err != nil || !got {
		return false, err
	}
	return true, l.Redis.Expire(ctx, l.Key, l.TTL).Err()
}

// Unlock deletes the lock if it still has the value. WATCH makes the transaction fail
// if the key changes between GET and EXEC.
func (l *SetNX) Unlock(ctx context.Context) error {
	return l.Redis.Watch(ctx, func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, l.Key).Result()
		if err != nil || value != l.Value {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			return p.Del(ctx, l.Key).Err()
		})
		return err
	}, l.Key)
}
