package memstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestInspectShowsAHundredWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		request := func(client int) driver.Request {
			return driver.Request{Key: "k", Owner: fmt.Sprintf("c%d:secret", client), Mode: driver.Write, TTL: time.Hour}
		}
		_, err := s.Acquire(t.Context(), request(0))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		for i := range 101 {
			waiters.Go(func() { _, _ = s.Wait(ctx, request(i+1), func() {}) })
			synctest.Wait()
		}
		info, err := s.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, 101, info.Waiting)
		require.Len(t, info.Places, 100)
		for i, p := range info.Places {
			assert.Equal(t, driver.Place{Mode: driver.Write, Client: driver.ClientName(fmt.Sprintf("c%d:x", i+1)), Waited: 1}, p)
		}
		cancel()
		waiters.Wait()
		require.NoError(t, s.Close())
	})
}
