package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

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
