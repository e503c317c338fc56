package waitgraph_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/cmd/leasewheel/internal/waitgraph"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// Clients in three processes wait for each other, for locks of all kinds.
func TestDeadlocksOnRedis(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	prefix := rand.Text() + ":"
	newClient := func(name string) *lock.Client {
		store, err := redisstore.New(rdb, &redisstore.Options{Prefix: prefix})
		require.NoError(t, err)
		c, err := lock.New(store, &lock.Options{Terms: lock.Terms{Metadata: name}})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
		return c
	}
	a, b, c := newClient("a"), newClient("b"), newClient("c")
	ctx, cancel := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	t.Cleanup(func() { cancel(); waiters.Wait() })
	hold := func(l lock.Locker) {
		_, err := l.Lock(ctx)
		require.NoError(t, err)
	}
	wait := func(l lock.Locker, key string) {
		t.Helper()
		waiters.Go(func() { _, _ = l.Lock(ctx) })
		require.Eventually(t, func() bool {
			info, err := a.Inspect(ctx, key)
			return err == nil && info.Waiting > 0
		}, 25*time.Second, 5*time.Millisecond, "%s is waited for", key)
	}

	hold(a.Mutex("mutex"))
	hold(b.RWMutex("rw").RLocker())
	hold(b.RWMutex("rw").RLocker())
	hold(c.Semaphore("permits", 2))
	hold(c.Semaphore("permits", 2))
	wait(a.RWMutex("rw"), "rw")
	wait(b.Semaphore("permits", 2), "permits")
	cycles, err := waitgraph.Cycles(ctx, c, "")
	require.NoError(t, err)
	assert.Empty(t, cycles, "c waits for nothing")

	wait(c.Mutex("mutex"), "mutex")
	cycles, err = waitgraph.Cycles(ctx, c, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a rw b permits c mutex"}, texts(t, cycles))
	cycles, err = waitgraph.Cycles(ctx, c, "r")
	require.NoError(t, err)
	assert.Empty(t, cycles)
}
