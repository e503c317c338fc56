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
	c := &s.clock
	c.mu.Lock()
	known, now := !c.asked.IsZero() && time.Since(c.asked) < clockAge, time.Now().Add(c.offset)
	c.mu.Unlock()
	if known {
		return now
	}
	info, err := s.stream.Info(ctx)
	if err != nil || info.TimeStamp.IsZero() {
		return now
	}
	c.set(time.Now(), time.Until(info.TimeStamp))
	return info.TimeStamp
}

func (c *clock) set(asked time.Time, offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.offset = asked, offset
}
