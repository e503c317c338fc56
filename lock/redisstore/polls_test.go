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
)

// lossy is a connection on which one script is lost, if it is to be, and nobody told.
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

// L1: a waiter asks three times in the time of a place, also if one poll is lost on a
// connection that stays open.
func TestAPollThatIsLostCostsNoPlace(t *testing.T) {
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
	time.Sleep(2500 * time.Millisecond) // a place and more
	require.False(t, lose.Load(), "a poll was lost")
	_, took := handed(t, other, holder, done)
	assert.Less(t, took, soon)
}

// TestNothingIsAskedForOnceTheLockIsGranted, though a signal came while the poll was under way.
func TestNothingIsAskedForOnceTheLockIsGranted(t *testing.T) {
	t.Parallel()
	s, w := wired(t, "")
	r := requestFor("k", time.Hour)
	call := &waiting{
		store: s, request: r, place: time.Hour, anchor: time.Now(), ear: s.signals.join(r.Owner), answers: make(chan reply, 1),
		queued: true, polling: true, again: true,
	}
	call.next(time.Hour)
	call.answers <- reply{acquired: acquired{verdict: granted, token: 5}, sent: time.Now()}
	l, err := call.queue(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 5, l.Token)
	assert.False(t, call.unanswered, "or a tombstone would be left for it")
	s.running.Wait()
	assert.Zero(t, w.evals.Load())
}
