package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// stateful returns a request for a lock and the state of its key.
func stateful(key string) driver.Request {
	r := request(key)
	r.Attrs = &driver.Attrs{Stateful: true, Metadata: "m"}
	return r
}

// A key that has the name of a state, but another content, is neither read nor replaced, and the lock
// is not granted to a request that asks for it.
func TestAForeignValueIsNoState(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	held := acquire(t, s, stateful("k"))
	state := s.lockKey("k") + stateEnd
	for name, spoil := range map[string]func() error{
		"text":  func() error { return rdb.Set(t.Context(), state, "17 x", 0).Err() },
		"empty": func() error { return rdb.Set(t.Context(), state, "", 0).Err() },
		"list":  func() error { return rdb.RPush(t.Context(), state, "17 1 x").Err() },
	} {
		require.NoError(t, rdb.Del(t.Context(), state).Err())
		require.NoError(t, spoil(), name)
		before := rdb.Dump(t.Context(), state).Val()
		require.ErrorIs(t, s.Save(t.Context(), held, 1, []byte("one"), time.Hour), driver.ErrWrongType, name)
		assert.Equal(t, before, rdb.Dump(t.Context(), state).Val(), name)
		require.NoError(t, s.Release(t.Context(), held))
		_, err := s.Acquire(t.Context(), stateful("k"))
		require.ErrorIs(t, err, driver.ErrWrongType, name)
		assert.Zero(t, rdb.Exists(t.Context(), s.lockKey("k")).Val(), "the lock was not granted")
		held = acquire(t, s, request("k")) // it asks for no state
	}
	require.NoError(t, s.Forget(t.Context(), "k"))
	assert.Zero(t, rdb.Exists(t.Context(), state).Val())
}

// The message of a hand-over tells the state, so the waiter need not ask for it.
func TestAHandOverTellsTheState(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	var calls testredis.Counter
	s := newStore(t, rdb, &Options{Place: time.Hour, Instrument: calls.Attach})
	next := func(l driver.Lease, spoil func() error) driver.Lease {
		t.Helper()
		r := stateful("k")
		r.TTL = time.Hour
		done := startQuietWait(t.Context(), t, s, &calls, r)
		require.NoError(t, spoil())
		l, took := handed(t, s, l, done)
		require.Less(t, took, soon, "a poll came first")
		return l
	}
	nothing := func() error { return nil }
	first := stateful("k")
	first.TTL = time.Hour
	l := next(acquire(t, s, first), nothing)
	assert.Equal(t, &driver.Saved{Data: nil}, l.Saved, "there is none")
	for _, data := range []string{"", "one", " 2 \r\n\x00\xff ", strings.Repeat("x y", driver.MaxSavedLen/3)} {
		require.NoError(t, s.Save(t.Context(), l, 1, []byte(data), time.Hour))
		held := l
		l = next(held, nothing)
		require.NotNil(t, l.Saved)
		assert.Equal(t, held.Token, l.Saved.Token)
		assert.Equal(t, digest(data), digest(string(l.Saved.Data)), "%d bytes", len(l.Saved.Data)) // up to 64 KiB
	}
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "m", info.Holders[0].Metadata)
	for what, spoil := range map[string]func() error{
		"text":  func() error { return rdb.Set(t.Context(), s.lockKey("k")+stateEnd, "17 x", 0).Err() },
		"empty": func() error { return rdb.Set(t.Context(), s.lockKey("k")+stateEnd, "", 0).Err() },
		"long": func() error {
			return rdb.Set(t.Context(), s.lockKey("k")+stateEnd, "17 1 "+strings.Repeat("x", 8<<20), 0).Err()
		},
		"list": func() error { return rdb.RPush(t.Context(), s.lockKey("k")+stateEnd, "17 1 x").Err() },
	} {
		require.NoError(t, s.Forget(t.Context(), "k"))
		l = next(l, spoil)
		assert.Nil(t, l.Saved, "%s: an Acquire says what is wrong", what)
	}
	done := startWait(t.Context(), t, s, requestFor("k", time.Hour))
	l, _ = handed(t, s, l, done)
	assert.Nil(t, l.Saved, "for a request that does not ask")
	require.NoError(t, s.Forget(t.Context(), "k"))
	assert.Nil(t, next(l, nothing).Saved, "a holder that has not asked does not name the key of the state")
}

// A state has an expiry, and is the only key that a released lock leaves besides its last token.
func TestAStateIsOneKey(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, stateful("k"))
	require.NoError(t, s.Save(t.Context(), l, 1, []byte("one"), time.Hour))
	other := l
	other.Attrs = &driver.Attrs{Metadata: "m"}
	require.ErrorIs(t, s.Save(t.Context(), other, 2, []byte("two"), time.Hour), driver.ErrNotHeld, "that owner does not ask for the state")
	require.NoError(t, s.Release(t.Context(), l))
	lock := s.lockKey("k")
	assert.ElementsMatch(t, []string{lock + ":t", lock + stateEnd}, rdb.Keys(t.Context(), "*").Val())
	assert.InDelta(t, time.Hour.Seconds(), rdb.PTTL(t.Context(), lock+stateEnd).Val().Seconds(), 5)
}

// A key with the proclaimed name of a leader must not stay, because it lives for a year.
func TestAProclaimedNameGoesWithTheLeadership(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	for end, f := range map[string]func(c *lock.Client, h *lock.Held) error{
		"Unlock":       func(_ *lock.Client, h *lock.Held) error { return h.Unlock(t.Context()) },
		"Close":        func(c *lock.Client, _ *lock.Held) error { return c.Close(t.Context()) },
		"ForceRelease": func(c *lock.Client, _ *lock.Held) error { return c.ForceRelease(t.Context(), "e") },
	} {
		store := newStore(t, rdb, nil)
		c, err := lock.New(store, nil)
		require.NoError(t, err)
		leadership, err := c.Election("e", "me").Campaign(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Election("e", "me").Proclaim(t.Context(), leadership, "other"))
		keys := func() []string { return rdb.Keys(t.Context(), store.prefix+"*"+metadataEnd).Val() }
		assert.Len(t, keys(), 1)
		require.NoError(t, f(c, leadership), end)
		assert.Empty(t, keys(), end)
		require.NoError(t, c.Close(context.Background()))
	}
}
