// The difference between the clocks of the server and of this process.

package natsstore

import (
	"context"
	"sync"
	"time"
)

// clock knows the difference between the clocks of the server and of this process. It is used for
// times that are shown and for waiting, never to decide who holds a lock.
type clock struct {
	mu     sync.Mutex // guards all fields below
	asked  time.Time
	offset time.Duration
}

// serverNow returns the time of the server's clock. It asks the server once per clockAge.
func (s *Store) serverNow(ctx context.Context) time.Time {
	if offset, ok := s.clock.get(); ok {
		return time.Now().Add(offset)
	}
	info, err := s.stream.Info(ctx)
	now := time.Now()
	if err != nil || info.TimeStamp.IsZero() {
		return now
	}
	s.clock.set(now, info.TimeStamp.Sub(now))
	return info.TimeStamp
}

func (c *clock) get() (offset time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, !c.asked.IsZero() && time.Since(c.asked) < clockAge
}

func (c *clock) set(asked time.Time, offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.offset = asked, offset
}
