package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func TestElection(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	store := newStore(t, rdb, nil)
	candidate := func(name string) *lock.Election {
		s, err := New(rdb, &Options{Prefix: store.prefix})
		require.NoError(t, err)
		c, err := lock.New(s, nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
		return c.Election("e", name)
	}
	a, b := candidate("host a: {1} é"), candidate("b")
	first, err := a.Campaign(t.Context())
	require.NoError(t, err)
	elected := make(chan *lock.Held, 1)
	go func() {
		h, err := b.Campaign(t.Context())
		assert.NoError(t, err)
		elected <- h
	}()
	for deadline := time.Now().Add(time.Minute); ; {
		names, err := a.Candidates(t.Context())
		require.NoError(t, err)
		if len(names) > 0 {
			assert.Equal(t, []string{"b"}, names)
			break
		}
		require.True(t, time.Now().Before(deadline), "the candidate is not listed")
	}
	require.NoError(t, a.Proclaim(t.Context(), first, "host a, ready"))
	seen := 0
	for leader, err := range candidate("").Observe(t.Context()) {
		require.NoError(t, err)
		if seen++; seen == 1 {
			assert.Equal(t, "host a, ready", leader.Name)
			assert.Equal(t, first.Token(), leader.Term)
			require.NoError(t, first.Unlock(t.Context()))
			assert.Zero(t, rdb.Exists(t.Context(), store.lockKey("e")+metadataEnd).Val(), "the name that was proclaimed goes")
			continue
		}
		second := <-elected
		assert.Equal(t, "b", leader.Name)
		assert.Equal(t, second.Token(), leader.Term)
		assert.Greater(t, leader.Term, first.Token())
		require.NoError(t, second.Unlock(t.Context()))
		break
	}
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
