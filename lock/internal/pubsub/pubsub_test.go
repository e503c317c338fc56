package pubsub

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a codec of messages "id value sender". The id of a listener is its name in
// capitals.
type plain struct{}

func (plain) ID(name string) string { return strings.ToUpper(name) }

func (plain) Parse(payload string) (id string, value uint64, ok bool) {
	fields := strings.Fields(payload)
	if len(fields) != 3 {
		return "", 0, false
	}
	value, err := strconv.ParseUint(fields[1], 10, 64)
	return fields[0], value, err == nil
}

func (plain) Verify(name, payload string) bool { return strings.HasSuffix(payload, " "+name) }

// running returns a subscription as if a connection was open.
func running(t *testing.T) *Subscription {
	s := New(nil, plain{}, Options{})
	s.running = true
	t.Cleanup(s.Close)
	return s
}

func TestAListenerReceivesVerifiedMessagesOnly(t *testing.T) {
	s := running(t)
	l := s.Join("a", "c")
	for _, payload := range []string{"", "A", "A 5", "A five a", "A 5 b", "B 5 b", "a 5 a"} {
		s.deliver(payload)
		assert.Empty(t, l.Wake(), "%q", payload)
	}
	s.deliver("A 5 a")
	s.deliver("A 4 a")
	assert.Len(t, l.Wake(), 1)
	value, payload, missed := s.Take(l)
	assert.EqualValues(t, 5, value, "the highest")
	assert.Equal(t, "A 5 a", payload)
	assert.False(t, missed)
	s.deliver("A 0 a")
	value, payload, missed = s.Take(l)
	assert.Zero(t, value)
	assert.Empty(t, payload)
	assert.True(t, missed)
	s.Leave(l)
	s.deliver("A 6 a")
	value, _, _ = s.Take(l)
	assert.Zero(t, value, "it has left")
}

func TestAListenerLearnsThatItMayHaveMissedMessages(t *testing.T) {
	s := running(t)
	early := s.Join("early", "c")
	s.Listen(early)
	on, off := s.wanted()
	assert.Equal(t, []string{"c"}, on)
	assert.Empty(t, off)
	missed := func(l *Listener) bool {
		_, _, missed := s.Take(l)
		return missed
	}
	assert.False(t, missed(early))
	s.confirmed("c")
	assert.True(t, missed(early), "messages before the confirmation")
	late := s.Join("late", "c")
	s.Listen(late)
	assert.False(t, missed(late), "the channel was on at Join")
	s.disconnected(true)
	assert.True(t, missed(early))
	assert.True(t, missed(late))
	s.disconnected(false)
	assert.False(t, missed(late), "a connection that never worked changes nothing")
}

func TestChannelsThatNoListenerNeeds(t *testing.T) {
	s := running(t)
	first, second := s.Join("first", "1"), s.Join("second", "2")
	s.Listen(first)
	s.Listen(second)
	s.wanted()
	s.Leave(first)
	on, off := s.wanted()
	assert.Empty(t, on)
	assert.Equal(t, []string{"1"}, off)
	s.Leave(second)
	_, off = s.wanted()
	assert.Empty(t, off, "the last one is kept for the next listener")
	assert.True(t, s.isIdle())
	assert.True(t, s.stop())
}

// A listener that was made while nobody listened, and became active when the channel was on, has
// missed what came before.
func TestAListenerWithoutJoinMayHaveMissedMessages(t *testing.T) {
	s := New(nil, plain{}, Options{})
	t.Cleanup(s.Close)
	require.Nil(t, s.Join("a", "c"), "the subscription is not running")
	s.Leave(nil)
	s.running = true
	s.Listen(NewListener("other", "c"))
	s.wanted()
	s.confirmed("c")
	l := NewListener("a", "c")
	s.Listen(l)
	_, _, missed := s.Take(l)
	assert.True(t, missed)
	s.deliver("A 5 a")
	value, _, _ := s.Take(l)
	assert.EqualValues(t, 5, value)
}

// patience is the time for what must happen in the end.
const patience = 30 * time.Second

// A sharded subscription uses the sharded commands, and Message gets what a Codec would not
// understand. It shortens the names of the channels.
func TestShardedChannelsOnAServer(t *testing.T) {
	server := testredis.Start(t)
	rdb := server.Client(t)
	type message struct{ channel, payload string }
	messages := make(chan message, 10)
	open := func(ctx context.Context) (*redis.PubSub, func() bool) {
		return rdb.Subscribe(ctx), func() bool { return true }
	}
	s := New(open, plain{}, Options{Prefix: "p:", Sharded: true, Message: func(channel, payload string) {
		messages <- message{channel, payload}
	}})
	defer s.Close()
	subscribers := func(channel string) int64 {
		n, err := rdb.PubSubShardNumSub(t.Context(), channel).Result()
		require.NoError(t, err)
		return n[channel]
	}

	first, second := NewListener("first", "1"), NewListener("second", "2")
	for _, l := range []*Listener{first, second} {
		s.Listen(l)
		select {
		case <-l.Wake():
		case <-time.After(patience):
			require.Fail(t, "the channel is not on")
		}
		_, _, missed := s.Take(l)
		assert.True(t, missed, "messages before the subscription")
	}
	require.NoError(t, rdb.SPublish(t.Context(), "p:2", "no codec reads it").Err())
	select {
	case m := <-messages:
		assert.Equal(t, message{"2", "no codec reads it"}, m)
	case <-time.After(patience):
		require.Fail(t, "no message")
	}
	require.NoError(t, rdb.Publish(t.Context(), "p:2", "not sharded").Err())

	s.Leave(first)
	require.Eventually(t, func() bool { return subscribers("p:1") == 0 }, patience, time.Millisecond)
	assert.EqualValues(t, 1, subscribers("p:2"), "the connection goes on")
	assert.Empty(t, second.Wake(), "it has missed nothing")
	assert.Empty(t, messages)
}

// The server ends a sharded subscription when the slot of its channel moves away. Listeners must
// be told, and the connection must end.
func TestAShardedChannelThatTheServerEnds(t *testing.T) {
	s := New(nil, plain{}, Options{Sharded: true})
	s.running = true
	t.Cleanup(s.Close)
	stays, leaves := s.Join("stays", "1"), s.Join("leaves", "2")
	s.Listen(stays)
	s.Listen(leaves)
	s.wanted()
	s.confirmed("1")
	s.confirmed("2")
	s.Leave(leaves)
	s.wanted()
	assert.True(t, s.unsubscribed("2"), "the subscription has asked for it")
	assert.False(t, s.unsubscribed("2"), "only once")
	assert.False(t, s.unsubscribed("1"), "the slot has moved")
}

func TestAProofThatFailsIsTriedAgain(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	open := func(ctx context.Context) (*redis.PubSub, func() bool) {
		return rdb.Subscribe(ctx), func() bool { return true }
	}
	var calls atomic.Int64
	s := New(open, plain{}, Options{
		Unconfirmed: func(err error) { assert.NoError(t, err) },
		Prove: func(ctx context.Context, channel, message string) error {
			if calls.Add(1) == 1 {
				return assert.AnError
			}
			return rdb.Publish(ctx, channel, message).Err()
		},
	})
	defer s.Close()
	s.Listen(NewListener("a", "c"))
	proven := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.proven
	}
	require.Eventually(t, proven, patience, time.Millisecond)
	assert.EqualValues(t, 2, calls.Load())
}
