// The connection of a Subscription: its channels, its pings and its messages.

package pubsub

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

const (
	// PingInterval is the time between two pings of a connection. A connection that
	// receives nothing for two of them is closed.
	PingInterval = time.Second

	idleTimeout = 30 * PingInterval // the default

	// The pause after a connection has failed doubles from minPause to maxPause.
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second

	pingsOfProof = 2 // within which the message of Options.Prove must arrive

	// maxUnconfirmed is how many connections in a row may end without a confirmed channel before
	// Options.Unconfirmed is called.
	maxUnconfirmed = 3
)

// run keeps a connection open until no listener is active or the Subscription ends.
func (s *Subscription) run() {
	pause, failed := minPause, 0
	for {
		worked, err := s.session()
		if s.ctx.Err() != nil || s.stop() {
			return
		}
		s.disconnected(worked)
		switch {
		case worked:
			pause, failed = minPause, 0
		case err != nil:
			var refusal redis.Error
			if failed++; (errors.As(err, &refusal) || failed == maxUnconfirmed) && s.opts.Unconfirmed != nil {
				s.opts.Unconfirmed(err)
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// session is the life of one connection. It reports whether a channel was ever confirmed. err is the
// end of a connection on which SUBSCRIBE was sent.
func (s *Subscription) session() (worked bool, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	ps, stays := s.open(ctx)
	if !s.adjust(ctx, ps) {
		_ = ps.Close()
		return false, nil
	}
	ctx = redisnode.WithoutDial(ctx) // go-redis would reconnect without notifying the listeners
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		worked, err = s.read(ctx, ps)
	}()
	s.maintain(ctx, ps, stays, ended)
	_ = ps.Close()
	<-ended // messages that were read before belong to this session
	return worked, err
}

// maintain subscribes, unsubscribes and pings until the connection has ended, is at the
// wrong node, or has been idle for too long.
func (s *Subscription) maintain(ctx context.Context, ps *redis.PubSub, stays func() bool, ended <-chan struct{}) {
	ticker := time.NewTicker(PingInterval)
	defer ticker.Stop()
	defer s.proof.Store(nil)
	ok, pings := true, 0
	for idle := time.Duration(0); ok && idle < s.opts.IdleTimeout; {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-s.change:
			ok = s.adjust(ctx, ps)
		case <-ticker.C:
			if pings++; pings > pingsOfProof && s.proof.Swap(nil) != nil {
				s.unproven(true)
				s.opts.Unconfirmed(errNotProven)
			}
			ok = stays() && withTimeout(ctx, func(ctx context.Context) error { return ps.Ping(ctx) })
			idle += PingInterval
			if !s.isIdle() {
				idle = 0
			}
		}
		if channel := s.unproven(false); ok && channel != "" && s.proof.Load() == nil {
			s.sendProof(channel)
			pings = 0
		}
	}
}

// sendProof sends a message to the Subscription itself.
func (s *Subscription) sendProof(channel string) {
	text := rand.Text()
	s.proof.Store(&text)
	var err error
	if withTimeout(s.ctx, func(ctx context.Context) error { err = s.opts.Prove(ctx, channel, text); return err }) {
		return
	}
	s.proof.Store(nil)
	if errors.Is(err, errors.ErrUnsupported) {
		s.unproven(true)
		s.opts.Unconfirmed(err)
	}
}

// proves reports whether a message is that of sendProof.
func (s *Subscription) proves(payload string) bool {
	text := s.proof.Load()
	if text == nil || *text != payload {
		return false
	}
	s.proof.Store(nil)
	s.unproven(true)
	return true
}

// adjust subscribes to the channels that are wanted and unsubscribes from others.
func (s *Subscription) adjust(ctx context.Context, ps *redis.PubSub) bool {
	on, off := s.wanted()
	return withTimeout(ctx, func(ctx context.Context) error {
		subscribe, unsubscribe := ps.Subscribe, ps.Unsubscribe
		if s.opts.Sharded {
			subscribe, unsubscribe = sendEach(ps.SSubscribe), sendEach(ps.SUnsubscribe)
		}
		if len(off) > 0 {
			if err := unsubscribe(ctx, off...); err != nil {
				return err
			}
		}
		if len(on) > 0 {
			return subscribe(ctx, on...)
		}
		return nil
	})
}

// sendEach returns a function that sends a command for each channel. The channels of one command
// must have the same slot.
func sendEach(send func(context.Context, ...string) error) func(context.Context, ...string) error {
	return func(ctx context.Context, channels ...string) error {
		for _, name := range channels {
			if err := send(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
}

// withTimeout bounds f, which may dial and write, by PingInterval.
func withTimeout(ctx context.Context, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, PingInterval)
	defer cancel()
	return f(ctx) == nil
}

// read receives messages until the connection fails or is silent for two pings. Any
// failure ends the connection, because a timeout may have cut a message in two. read reports whether
// a channel was ever confirmed.
func (s *Subscription) read(ctx context.Context, ps *redis.PubSub) (bool, error) {
	worked := false
	for {
		message, err := receive(ctx, ps)
		if err != nil {
			return worked, err
		}
		switch m := message.(type) {
		case *redis.Subscription:
			name := strings.TrimPrefix(m.Channel, s.opts.Prefix)
			switch m.Kind {
			case "subscribe", "ssubscribe":
				worked = true
				s.confirmed(name)
			case "sunsubscribe":
				if !s.unsubscribed(name) {
					return worked, nil
				}
			}
		case *redis.Message:
			if s.proves(m.Payload) {
				continue
			}
			if s.opts.Message != nil {
				s.opts.Message(strings.TrimPrefix(m.Channel, s.opts.Prefix), m.Payload)
			} else {
				s.deliver(m.Payload)
			}
		}
	}
}

// receive returns the next message. go-redis panics when it receives a reply that is not a
// message, such as an empty array. It holds no mutex then.
func receive(ctx context.Context, ps *redis.PubSub) (message any, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*PingInterval)
	defer cancel()
	defer func() {
		if recover() != nil {
			err = errNoMessage
		}
	}()
	return ps.Receive(ctx)
}

// errNotProven is the end of a proof without an answer.
var errNotProven = errors.New("messages of scripts do not arrive")

var errNoMessage = errors.New("the server sends a reply that is no message")
