package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// beat is the time between two pings of a subscription. One that hears nothing
	// for two of them is given up.
	beat = time.Second

	// linger is how many beats a subscription outlives the last waiter.
	linger = 30

	// A subscription that failed is made anew after a pause, doubled each time.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// run keeps a subscription until nobody needs it or the store is closed.
func (s *signals) run() {
	pause := firstPause
	for {
		worked := s.session()
		if s.ctx.Err() != nil || s.idle(true) {
			return
		}
		s.broken(worked)
		if worked {
			pause = firstPause
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// session is the life of one connection. It reports whether that ever worked.
func (s *signals) session() bool {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	ps, stays := s.open(ctx)
	if !s.adjust(ctx, ps) {
		_ = ps.Close()
		return false
	}
	var worked atomic.Bool
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.read(ctx, ps, &worked)
	}()
	s.tend(ctx, ps, stays, over)
	_ = ps.Close()
	<-over // what it has heard by then counts for this session
	return worked.Load()
}

// tend keeps the subscriptions as they are wanted, and pings, until the connection
// is over or at the wrong place, or nobody has waited for some time.
func (s *signals) tend(ctx context.Context, ps *redis.PubSub, stays func() bool, over <-chan struct{}) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	ok := true
	for quiet := 0; ok && quiet < s.linger; {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-s.change:
			ok = s.adjust(ctx, ps)
		case <-ticker.C:
			ok = stays() && briefly(ctx, func(ctx context.Context) error { return ps.Ping(ctx) })
			quiet++
			if !s.idle(false) {
				quiet = 0
			}
		}
	}
}

// adjust subscribes to what is wanted, and to nothing else.
func (s *signals) adjust(ctx context.Context, ps *redis.PubSub) bool {
	on, off := s.wanted()
	return briefly(ctx, func(ctx context.Context) error {
		if len(off) > 0 {
			if err := ps.Unsubscribe(ctx, off...); err != nil {
				return err
			}
		}
		if len(on) > 0 {
			return ps.Subscribe(ctx, on...)
		}
		return nil
	})
}

// briefly bounds what may dial, and write, by a beat.
func briefly(ctx context.Context, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return f(ctx) == nil
}

// read hears until the connection fails, or is silent for two beats: then its peer
// is gone or hangs, for it answers a ping at each. go-redis would notice neither,
// and a deadline that it only meant for the wait could end in the midst of a
// message; so any failure is the end of the connection.
func (s *signals) read(ctx context.Context, ps *redis.PubSub, worked *atomic.Bool) {
	for {
		message := receive(ctx, ps)
		switch m := message.(type) {
		case nil:
			return
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				worked.Store(true)
				s.confirmed(m.Channel)
			}
		case *redis.Message:
			s.heard(m.Payload)
		}
	}
}

// receive returns the next message, nil if there will be none. go-redis panics at one
// that is none of its own, such as an empty array; by then it holds no lock.
func receive(ctx context.Context, ps *redis.PubSub) (message any) {
	ctx, cancel := context.WithTimeout(ctx, 2*beat)
	defer cancel()
	defer func() {
		if recover() != nil {
			message = nil
		}
	}()
	message, err := ps.Receive(ctx)
	if err != nil {
		return nil
	}
	return message
}
