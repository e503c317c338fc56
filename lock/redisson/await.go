package redisson

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// await calls try until that returns 0 or an error: at first, once the channel is subscribed, after
// each message, and when the time that try has returned has passed, but at least every 30 seconds.
func (s *Store) await(ctx context.Context, name, channel string, try func() (time.Duration, error)) error {
	if ctx == nil {
		return rediskit.ErrNilContext
	}
	publish, err := s.publish(ctx, name)
	if err != nil {
		return err
	}
	if err := s.redis.Begin(ctx); err != nil {
		return rediskit.FromConn(err)
	}
	defer s.redis.End()
	sharded := publish == "SPUBLISH"
	w := &waiter{store: s, sleeper: s.wakeups.join(channel, redisconn.SlotOf(name), sharded, true)}
	defer s.wakeups.leave(w.sleeper, false)
	for {
		began := time.Now()
		pause, err := try()
		switch {
		case err != nil:
			if pause, err = w.onError(ctx, err, began); err != nil {
				return err
			}
		case pause == 0:
			return nil
		default:
			w.failing, w.retry, w.queued = time.Time{}, 0, true
			s.wakeups.listen(w.sleeper, sharded)
			pause = sleepFor(pause)
		}
		if err := w.sleep(ctx, pause); err != nil {
			return err
		}
	}
}
