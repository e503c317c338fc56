package history

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// HashMulti locks many members at once: fields of one hash, whose values are the
// times at which they end, by the clock of the process that wrote them. A [Token]
// lock is held while they are looked at and written. Source of the idea: an article
// on improving MultiLock, and getMultiLock of Redisson, which keeps owners beside the
// times but goes by the clocks of its clients too.
type HashMulti struct {
	Redis   *redis.Client
	Group   string
	Value   string // of the lock around
	Members []string
	TTL     time.Duration
	Now     func() time.Time // the clock of this process
}

// TryLock tells whether it got all members.
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
		text, _ := end.(string) // nil: nobody has it
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

// Unlock takes the members out, whoever has them.
func (l *HashMulti) Unlock(ctx context.Context) error {
	return l.Redis.HDel(ctx, l.Group, l.Members...).Err()
}
