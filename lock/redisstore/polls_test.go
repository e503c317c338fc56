package redisstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
)

// lossy is a connection that drops one script without an error when lose is set.
type lossy struct {
	net.Conn
	lose *atomic.Bool
}

// Write implements net.Conn.
func (c lossy) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("evalsha")) && c.lose.CompareAndSwap(true, false) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// L1: a waiter polls three times in the length of a place, so it keeps the place if one poll
// is lost on a connection that stays open.
func TestALostPollKeepsThePlace(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	prefix := rand.Text() + ":"
	rdb := redis.NewClient(&redis.Options{
		Addr: shared.Server(t).Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return lossy{conn, &lose}, err
		},
	})
	defer rdb.Close()
	other := newStore(t, shared.Server(t).Client(t), &Options{Prefix: prefix})
	holder := acquire(t, other, requestFor("k", time.Hour))
	s := newStore(t, rdb, &Options{Prefix: prefix, Place: 2 * time.Second})
	done := startWait(t.Context(), t, s, requestFor("k", 20*time.Second))
	lose.Store(true)
	time.Sleep(2500 * time.Millisecond) // longer than a place
	require.False(t, lose.Load(), "a poll was lost")
	_, took := handed(t, other, holder, done)
	assert.Less(t, took, soon)
}

// A granted waiter sends no more polls, even if a signal came before the answer to its poll.
func TestNoPollFollowsAGrant(t *testing.T) {
	t.Parallel()
	s, w := wired(t, "")
	r := requestFor("k", time.Hour)
	p := new(poll)
	call := &waiter{
		store: s, request: r, place: time.Hour, lastPollSent: time.Now(), listener: pubsub.NewListener(r.Owner, ""), answers: make(chan reply, 1),
		state: waitQueued, polls: []*poll{p}, pollAgain: true,
	}
	call.setTimer(time.Hour)
	call.answers <- reply{acquired: acquired{verdict: granted, token: 5}, poll: p, sent: time.Now()}
	call.queue(t.Context())
	require.NoError(t, call.err)
	assert.EqualValues(t, 5, call.lease.Token)
	assert.False(t, call.unanswered, "the release needs no tombstone")
	require.NoError(t, s.Close()) // waits for all requests
	assert.Zero(t, w.Evals.Load())
}
