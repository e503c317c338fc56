// Redisson, a reentrant lock with a watchdog in a hash.

package legacy

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redisson is the reentrant lock of the Java library Redisson: a hash with one field,
// the owner, whose value is the number of holds. A watchdog renews the lock every third
// of the lease. Unlock publishes a message to all waiters. The protocol is that of RLock
// in Redisson 3 and 4.
type Redisson struct {
	Redis *redis.Client
	Key   string
	Owner string // id of the client and of the thread
	Lease time.Duration

	renewals bool // the watchdog is running
}

const (
	redissonAcquire = `-- acquire
local mine = redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1
if not mine and redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return nil`

	redissonRenew = `-- renew
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`

	redissonRelease = `-- release
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return -1
end
if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`
)

// channel returns the channel on which Unlock publishes.
func (l *Redisson) channel() string { return "redisson_lock__channel:{" + l.Key + "}" }

// TryLock returns whether it got the lock and, if not, the remaining time of the lease
// in the way. If it got the lock, it starts the watchdog.
func (l *Redisson) TryLock(ctx context.Context) (bool, time.Duration, error) {
	ms, err := l.Redis.Eval(ctx, redissonAcquire, []string{l.Key}, l.Lease.Milliseconds(), l.Owner).Int64()
	if errors.Is(err, redis.Nil) {
		l.renewals = true
		return true, 0, nil
	}
	return false, time.Duration(ms) * time.Millisecond, err
}

// Lock waits for the lock. It tries again after each message, and when the lease in
// the way expires. It subscribes before its second try so that it misses no message.
func (l *Redisson) Lock(ctx context.Context) error {
	got, _, err := l.TryLock(ctx)
	if got || err != nil {
		return err
	}
	sub := l.Redis.Subscribe(ctx, l.channel())
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	released := sub.Channel()
	for {
		got, left, err := l.TryLock(ctx)
		if got || err != nil {
			return err
		}
		select {
		case <-released:
		case <-time.After(left):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Tick runs the watchdog once. The caller calls it every third of the lease. The
// watchdog ends when the owner has no lock. It notifies nobody.
func (l *Redisson) Tick(ctx context.Context) {
	if !l.renewals {
		return
	}
	held, err := l.Redis.Eval(ctx, redissonRenew, []string{l.Key}, l.Lease.Milliseconds(), l.Owner).Bool()
	l.renewals = held || err != nil
}

// Unlock releases one hold. The watchdog continues if the owner has more.
func (l *Redisson) Unlock(ctx context.Context) error {
	left, err := l.Redis.Eval(ctx, redissonRelease, []string{l.Key, l.channel()}, l.Lease.Milliseconds(), l.Owner).Int()
	l.renewals = l.renewals && err == nil && left == 0
	return err
}
