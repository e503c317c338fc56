// This file is about Latch, the RCountDownLatch of Redisson.

package redisson

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

var (
	latchScript      = newScript("latch")
	latchCountScript = newScript("latch_count")
)

// Latch is an RCountDownLatch. Its methods are safe for concurrent use. They return the errors that
// [Semaphore] lists. On a cluster they return driver.ErrBadKey for a name with braces, because the
// channel of the latch would be in another slot.
//
// A Latch sends a request a second time if the first one gets no answer. The server executes only one
// of them.
type Latch struct {
	store *Store
	key   string
}

// Latch returns the RCountDownLatch of that name. It does no IO. The latch uses the connections of the
// store, and fails with driver.ErrStoreClosed after the store was closed.
func (s *Store) Latch(name string) *Latch { return &Latch{s, name} }

// TrySetCount sets the count if the latch has none, and reports whether it did. count must be at least
// 1.
func (l *Latch) TrySetCount(ctx context.Context, count int64) (bool, error) {
	if count < 1 {
		return false, failed("set the count of", l.key, fmt.Errorf("the count must be at least 1, got %d", count))
	}
	return l.change(ctx, "set the count of", "set", count)
}

// CountDown lowers the count by 1. At 0 it opens the latch: all calls of Await return, and the count
// may be set again. Without a count CountDown does nothing.
func (l *Latch) CountDown(ctx context.Context) error {
	_, err := l.change(ctx, "count down", "down", 0)
	return err
}

// Delete removes the count, which opens the latch, and reports whether there was one. It wakes all
// waiters, also those of Redisson. The delete of an RCountDownLatch itself wakes only the Go waiters:
// a JVM in await waits on.
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	return l.change(ctx, "delete", "delete", 0)
}

// Count returns the count, 0 if the latch is open.
func (l *Latch) Count(ctx context.Context) (int64, error) {
	name, err := l.name()
	var n int64
	if err == nil {
		n, err = l.count(ctx, name)
	}
	if err != nil {
		return 0, failed("read the count of", l.key, err)
	}
	return n, nil
}

// Await waits until the count is 0. It returns an error if ctx ends, the store is closed, or the server
// gives no answer: the first two requests fail, or requests fail for 5 seconds.
func (l *Latch) Await(ctx context.Context) error {
	name, err := l.name()
	if err != nil {
		return failed("wait for", l.key, err)
	}
	err = l.store.tryUntilDone(ctx, name, latchChannel(name), func() (time.Duration, error) {
		n, err := l.count(ctx, name)
		if err == nil && n > 0 {
			return maxSleep, nil
		}
		return 0, err
	})
	if err != nil {
		return failed("wait for", l.key, err)
	}
	return nil
}

// name returns the name with the prefix.
func (l *Latch) name() (string, error) {
	name, err := l.store.nameOf(l.key)
	if err == nil {
		err = l.store.checkSlot(name, latchChannel(name))
	}
	return name, err
}

func (l *Latch) count(ctx context.Context, name string) (int64, error) {
	reply, err := l.store.run(ctx, call{script: latchCountScript, keys: []string{name}}, "")
	if err != nil {
		return 0, err
	}
	n, ok := reply.Value.(int64)
	if !ok {
		return 0, rediskit.UnexpectedReply(reply.Value)
	}
	return max(n, 0), nil
}

// change runs the latch script, again if the first request gets no answer.
func (l *Latch) change(ctx context.Context, verb, what string, count int64) (bool, error) {
	done, err := l.changeOnce(ctx, what, count, rand.Text())
	if err != nil {
		return false, failed(verb, l.key, err)
	}
	return done, nil
}

func (l *Latch) changeOnce(ctx context.Context, what string, count int64, mark string) (bool, error) {
	name, err := l.name()
	if err != nil {
		return false, err
	}
	publish, err := l.store.publishCommand(ctx, name)
	if err != nil {
		return false, err
	}
	c := call{
		script: latchScript,
		keys:   []string{name, latchChannel(name), tombstoneKey(name, mark)},
		args:   []any{publish, what, count, tombstone.Milliseconds()},
	}
	reply, err := l.store.run(ctx, c, "")
	if err != nil && !isPermanent(err) && ctx != nil && ctx.Err() == nil {
		reply, err = l.store.run(ctx, c, "")
	}
	if err != nil {
		return false, err
	}
	return parseDone(reply.Value)
}
