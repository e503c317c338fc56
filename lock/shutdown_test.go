package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// slowStore is a store that takes long to close.
type slowStore struct{ *memstore.Store }

func (s slowStore) Shutdown(ctx context.Context) error {
	_ = s.Close()
	<-ctx.Done()
	return context.Cause(ctx)
}

// L5: Close of a client returns when its context ends, even if the store takes longer to close.
func TestCloseShutsTheStoreDownWithinItsContext(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func() driver.Store{
		"single": func() driver.Store { return slowStore{memstore.New()} },
		"quorum": func() driver.Store {
			q, err := quorumstore.New(slowStore{memstore.New()}, slowStore{memstore.New()}, memstore.New())
			require.NoError(t, err)
			return q
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := lock.New(store(), nil)
			require.NoError(t, err)
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
			cause := errors.New("no more time")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, client.Close(ctx), cause, name)
			assert.Equal(t, time.Second, time.Since(start), name)
		})
	}
}
