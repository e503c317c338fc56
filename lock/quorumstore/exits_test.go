package quorumstore_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestQuorumOfStoresThatExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all.fail(2, func(context.Context, locktest.Op) error {
			runtime.Goexit()
			return nil
		})
		start := time.Now()
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.ErrorContains(t, err, "2 of 3 stores failed: ")
		require.ErrorContains(t, err, "goroutine")
		assert.Zero(t, time.Since(start))
		synctest.Wait()
		assert.Zero(t, all.holding("k"))
		all.fail(1, nil)
		acquire(t, q, "k", "b")
	})
}
