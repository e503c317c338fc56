package security

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// ownerLog is a store that grants nothing and records the owners.
type ownerLog struct {
	driver.Base

	mu     sync.Mutex // guards owners
	owners map[string]int
}

// Acquire implements driver.Store.
func (n *ownerLog) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners[r.Owner]++
	return driver.Lease{}, &lock.HeldError{Key: r.Key}
}

// Renew implements driver.Store.
func (*ownerLog) Renew(context.Context, []driver.Lease, []renewal.Outcome) error { return nil }

// Release implements driver.Store.
func (*ownerLog) Release(context.Context, driver.Lease) error { return nil }

// countingReader counts the bytes that are read.
type countingReader struct {
	io.Reader
	bytes int
}

// Read implements io.Reader.
func (s *countingReader) Read(p []byte) (int, error) {
	s.bytes += len(p)
	return s.Reader.Read(p)
}

// TestOwnersComeFromTheSystem checks that owners use crypto/rand, and all of what they read.
func TestOwnersComeFromTheSystem(t *testing.T) {
	counted := &countingReader{Reader: rand.Reader}
	rand.Reader = counted
	defer func() { rand.Reader = counted.Reader }()
	n := &ownerLog{owners: map[string]int{}}
	c, err := lock.New(n, nil)
	require.NoError(t, err)
	for range 3 { // each acquisition reads new bytes, so a forked process does not repeat an owner
		before := counted.bytes
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.GreaterOrEqual(t, counted.bytes-before, 128/8)
	}
	assert.Len(t, n.owners, 3)
	for owner := range n.owners {
		_, secret, ok := strings.Cut(owner, ":")
		assert.True(t, ok)
		assert.Len(t, secret, 22, "letters of 6 bits, the last one of 2: 128 bits")
	}
	require.NoError(t, c.Close(context.Background()))
}

// TestOwnersOfClientsDiffer compares owners of many clients in both of their parts.
func TestOwnersOfClientsDiffer(t *testing.T) {
	const clients = 1000
	n, parts := &ownerLog{owners: map[string]int{}}, map[string]bool{}
	for range clients {
		c, err := lock.New(n, nil)
		require.NoError(t, err)
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, c.Close(context.Background()))
	}
	for owner := range n.owners {
		id, secret, _ := strings.Cut(owner, ":")
		parts[id], parts[secret] = true, true
	}
	assert.Len(t, parts, 2*clients)
}

// TestGuessedOwnersHaveNoEffect renews and releases with guessed owners, and the right
// key and token.
func TestGuessedOwnersHaveNoEffect(t *testing.T) {
	const renewals, releases, atATime = 100_000, 20_000, 1000
	rdb := shared.Server(t).Client(t)
	s, prefix := newStore(t, rdb)
	holder, err := s.Acquire(t.Context(), request("k"))
	require.NoError(t, err)
	key := prefix + "{k}"
	require.NoError(t, rdb.PExpire(t.Context(), key, time.Hour).Err())
	waiterCtx, leave := context.WithCancel(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() { _, _ = s.Wait(waiterCtx, request("k"), func() {}) })
	defer waiter.Wait()
	defer leave()
	queued := func() int64 { return rdb.LLen(t.Context(), key+":q").Val() }
	require.Eventually(t, func() bool { return queued() == 1 }, 10*time.Second, time.Millisecond)
	before := rdb.Get(t.Context(), key).Val()

	guesses := make([]driver.Lease, atATime)
	for done := 0; done < renewals; done += atATime {
		for i := range guesses {
			guesses[i] = driver.Lease{Request: request("k"), Token: holder.Token} // the token is not secret
		}
		out := make([]renewal.Outcome, atATime)
		require.NoError(t, s.Renew(t.Context(), guesses, out))
		for _, o := range out {
			require.True(t, o.IsLost())
		}
	}
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			for range releases / 16 {
				if err := s.Release(t.Context(), driver.Lease{Request: request("k"), Token: holder.Token}); !errors.Is(err, lock.ErrNotHeld) {
					assert.ErrorIs(t, err, lock.ErrNotHeld)
				}
			}
		})
	}
	work.Wait()
	assert.Equal(t, before, rdb.Get(t.Context(), key).Val())
	assert.EqualValues(t, 1, queued())
	assert.Greater(t, rdb.PTTL(t.Context(), key).Val(), 50*time.Minute, "a guessed renewal changed the expiry")
	require.NoError(t, s.Release(t.Context(), holder))
	report.Add("guesses      %d renewals, %d releases, no effect", renewals, releases)
}
