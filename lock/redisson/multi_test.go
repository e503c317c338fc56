package redisson

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// RMultiLock has no format of its own: lock.Multi holds all of its members, each in its own format.
func TestMultiOfSeveralKinds(t *testing.T) {
	t.Parallel()
	plain, rdb := own(t, Options{})
	fair := newStore(t, rdb, &Options{Kind: KindFairLock, Prefix: plain.options.Prefix})
	a, err := lock.New(plain, nil)
	require.NoError(t, err)
	b, err := lock.New(fair, nil)
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, a.Close(context.Background()))
		assert.NoError(t, b.Close(context.Background()))
	}()
	all := lock.Multi(a.Mutex("a"), b.Mutex("b"), a.RWMutex("c"))
	h, err := all.Lock(t.Context())
	require.NoError(t, err)
	for _, key := range []string{"a", "b", "c"} {
		info, err := plain.Inspect(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, 1, info.Held, key)
	}
	_, err = b.Election("e", "").Candidates(t.Context())
	require.NoError(t, err)
	_, err = a.Election("e", "").Candidates(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported, "an RLock has no queue")
	require.NoError(t, h.Unlock(t.Context()))
}
