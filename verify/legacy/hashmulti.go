// HashMulti, many locks in the fields of one hash.

package legacy

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// HashMulti locks many members at once. Each member is a field of one hash. Its value is
// the time at which it expires, by the clock of the writer. The process holds a [Token]
// lock while it reads and writes the hash. Redisson's getMultiLock is similar: it also
// stores owners, and also uses the clocks of its clients.
type HashMulti struct {
	Redis   *redis.Client
	Group   string
	Value   string // of the lock around the hash
	Members []string
	TTL     time.Duration
	Now     func() time.Time // the clock of this process
}

// TryLock returns whether it got all members.
func (l *HashMulti) TryLock(ctx context.Context) (got bool, err error) {
	around := &Token{Redis: l.Redis, Key: l.Group + ":around", Value: l.Value, TTL: l.TTL}
	if got, err := around.TryLock(ctx); !got {
		return false, err
	}
	defer func() { err = errors.Join(err, around.Unlock(ctx)) }()

	ends, err := l.Redis.HMGet(ctx, l.Group, l.Members...).Result()
	if err != nil {
		return false, err
	}
	now := l.Now().UnixMilli()
	for _, end := range ends {
		text, _ := end.(string) // nil means free
		ms, _ := strconv.ParseInt(text, 10, 64)
		if ms > now {
			return false, nil
		}
	}
	var fields []any
	for _, m := range l.Members {
		fields = append(fields, m, now+l.TTL.Milliseconds())
	}
	return true, l.Redis.HSet(ctx, l.Group, fields...).Err()
}

// Unlock removes the members without checking their owner.
func (l *HashMulti) Unlock(ctx context.Context) error {
	return l.Redis.HDel(ctx, l.Group, l.Members...).Err()
}
