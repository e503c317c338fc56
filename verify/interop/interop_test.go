package interop

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redlock"
)

const (
	ttl    = 3 * time.Second  // outlasts a busy machine, too
	long   = time.Minute      // a TTL that no test outlasts
	enough = 30 * time.Second // until something happens that must happen
	limit  = 2 * time.Minute  // of the rounds of a peer
)

// newClient returns a client of the store for the format.
func newClient(t *testing.T, rdb redis.UniversalClient, terms time.Duration) *lock.Client {
	t.Helper()
	store, err := redlock.New(rdb, nil)
	require.NoError(t, err)
	return clientOn(t, store, terms)
}

func clientOn(t *testing.T, store driver.Store, terms time.Duration) *lock.Client {
	t.Helper()
	client, err := lock.New(store, &lock.Options{
		Terms: lock.Terms{TTL: terms}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Backoff: func(int) time.Duration { return retry },
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		assert.NoError(t, client.Close(ctx))
	})
	return client
}

// forEach runs a test, which mostly waits, with each library.
func forEach(t *testing.T, f func(t *testing.T, r runtime)) {
	t.Helper()
	t.Parallel()
	for _, r := range runtimes() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			f(t, r)
		})
	}
}

// A lock that our watchdog renews outlasts its first TTL for the peer, too.
func TestThePeerSeesOurRenewals(t *testing.T) {
	forEach(t, func(t *testing.T, r runtime) {
		server := shared.Server(t)
		p := start(t, r.command(t), server.Addr())
		client := newClient(t, server.Client(t), ttl)
		key := rand.Text()
		held, err := client.Mutex(key).TryLock(t.Context())
		require.NoError(t, err)
		assert.False(t, p.ask(request{Do: "acquire", Key: key, TTL: ttl.Milliseconds()}).Held, "it tries once")
		wait := 5 * ttl / 2
		assert.False(t, p.ask(request{Do: "acquire", Key: key, TTL: ttl.Milliseconds(), Wait: wait.Milliseconds()}).Held, "it waits for two TTLs")
		require.NoError(t, held.Unlock(t.Context()))
		assert.True(t, p.ask(request{Do: "acquire", Key: key, TTL: long.Milliseconds()}).Held)
		_, err = client.Mutex(key).TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.True(t, p.ask(request{Do: "release", Key: key}).Held)
		held, err = client.Mutex(key).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// A lock that the peer extends, or that its watchdog renews, outlasts its first TTL for us.
func TestWeSeeTheRenewalsOfThePeer(t *testing.T) {
	forEach(t, func(t *testing.T, r runtime) {
		server := shared.Server(t)
		rdb := server.Client(t)
		p := start(t, r.command(t), server.Addr())
		client := newClient(t, rdb, ttl)
		key := rand.Text()
		if r.watches {
			assert.True(t, p.ask(request{Do: "watch", Key: key, TTL: ttl.Milliseconds()}).Held)
		} else {
			require.True(t, p.ask(request{Do: "acquire", Key: key, TTL: long.Milliseconds()}).Held)
			require.NoError(t, rdb.PExpire(t.Context(), key, ttl).Err(), "most of its time has passed")
			assert.True(t, p.ask(request{Do: "extend", Key: key, TTL: long.Milliseconds()}).Held)
		}
		err := lock.ErrUnavailable // of a request that was in flight at the end
		for try := 0; try < 10 && errors.Is(err, lock.ErrUnavailable); try++ {
			ctx, cancel := context.WithTimeout(t.Context(), 5*ttl/2)
			_, err = client.Mutex(key).Lock(ctx)
			cancel()
		}
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.True(t, p.ask(request{Do: "release", Key: key}).Held)
		ctx, cancel := context.WithTimeout(t.Context(), enough)
		defer cancel()
		held, err := client.Mutex(key).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestForcedReleases(t *testing.T) {
	forEach(t, func(t *testing.T, r runtime) {
		server := shared.Server(t)
		rdb := server.Client(t)
		p := start(t, r.command(t), server.Addr())
		client := newClient(t, rdb, ttl)
		key := rand.Text()
		require.True(t, p.ask(request{Do: "acquire", Key: key, TTL: long.Milliseconds()}).Held)
		require.NoError(t, client.ForceRelease(t.Context(), key))
		held, err := client.Mutex(key).TryLock(t.Context())
		require.NoError(t, err)
		assert.False(t, p.ask(request{Do: "extend", Key: key, TTL: long.Milliseconds()}).Held, "the peer learns of the loss")
		assert.False(t, p.ask(request{Do: "release", Key: key}).Held)
		assert.True(t, held.Valid(), "the peer has released nothing of ours")

		require.NoError(t, rdb.Del(t.Context(), key).Err())
		require.True(t, p.ask(request{Do: "acquire", Key: key, TTL: long.Milliseconds()}).Held)
		<-held.Done()
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		assert.True(t, p.ask(request{Do: "release", Key: key}).Held, "we have released nothing of the peer's")
	})
}
