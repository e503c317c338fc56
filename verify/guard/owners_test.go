package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/part"
)

// noter is a store that grants nothing and remembers who asked.
type noter struct {
	mu     sync.Mutex // guards owners
	owners map[string]int
}

// Acquire implements lock.Store.
func (n *noter) Acquire(_ context.Context, r lock.Request) (lock.Lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners[r.Owner]++
	return lock.Lease{}, &lock.HeldError{Key: r.Key}
}

// Renew implements lock.Store.
func (*noter) Renew(context.Context, []lock.Lease, []renewal.Outcome) error { return nil }

// Release implements lock.Store.
func (*noter) Release(context.Context, lock.Lease) error { return nil }

const (
	alphabet    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	leastLength = 26 // letters of 5 bits: 130 bits
)

func TestOwnersAreUniqueAndRandom(t *testing.T) {
	drawsOfOne, clients := 200_000, 10_000
	if part.IsLong() {
		drawsOfOne, clients = 1_000_000, 100_000
	}
	n := &noter{owners: make(map[string]int, drawsOfOne+clients)}
	engine, err := heapqueue.NewScheduler(nil)
	require.NoError(t, err)
	defer engine.Close()
	draw := func(times int) {
		c, err := lock.New(n, &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		for range times {
			_, err := c.Mutex("k").TryLock(t.Context())
			if !errors.Is(err, lock.ErrNotAcquired) {
				require.ErrorIs(t, err, lock.ErrNotAcquired)
			}
		}
		require.NoError(t, c.Close(context.Background()))
	}
	draw(drawsOfOne)
	for range clients {
		draw(1)
	}
	assert.Len(t, n.owners, drawsOfOne+clients, "none was used twice")

	ids := map[string]bool{}
	var letters [leastLength][len(alphabet)]int
	for owner := range n.owners {
		id, _, ok := strings.Cut(owner, ":")
		require.True(t, ok)
		require.Len(t, id, leastLength)
		if ids[id] {
			continue
		}
		ids[id] = true
		for i := range id {
			letter := strings.IndexByte(alphabet, id[i])
			require.GreaterOrEqual(t, letter, 0, "%q", id[i])
			letters[i][letter]++
		}
	}
	assert.Len(t, ids, 1+clients)
	for i, counts := range letters { // each letter of each place is there as often as it should
		expected := float64(len(ids)) / float64(len(alphabet))
		for letter, n := range counts {
			assert.Less(t, math.Abs(float64(n)-expected), 8*math.Sqrt(expected), "letter %c at %d", alphabet[letter], i)
		}
	}
	report.Add("owners       %d of one client, %d of as many clients, none twice, %d bits", drawsOfOne, clients, 5*leastLength)
}

// source counts what is taken from the random numbers of the system.
type source struct {
	io.Reader
	bytes int
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.bytes += len(p)
	return s.Reader.Read(p)
}

func TestOwnersComeFromTheSystem(t *testing.T) {
	counted := &source{Reader: rand.Reader}
	rand.Reader = counted
	defer func() { rand.Reader = counted.Reader }()
	c, err := lock.New(&noter{owners: map[string]int{}}, nil)
	require.NoError(t, err)
	require.NoError(t, c.Close(context.Background()))
	assert.GreaterOrEqual(t, counted.bytes, 128/8)
}

// TestGuessedOwnersHaveNoEffect lets somebody guess who knows all but the secret.
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
	waiter.Go(func() { _, _ = s.Wait(waiterCtx, request("k")) })
	defer waiter.Wait()
	defer leave()
	queued := func() int64 { return rdb.LLen(t.Context(), key+":q").Val() }
	require.Eventually(t, func() bool { return queued() == 1 }, 10*time.Second, time.Millisecond)
	before := rdb.Get(t.Context(), key).Val()

	guesses := make([]lock.Lease, atATime)
	for done := 0; done < renewals; done += atATime {
		for i := range guesses {
			guesses[i] = lock.Lease{Request: request("k"), Token: holder.Token} // the token is no secret
		}
		out := make([]renewal.Outcome, atATime)
		require.NoError(t, s.Renew(t.Context(), guesses, out))
		for _, o := range out {
			require.Equal(t, renewal.Lost, o)
		}
	}
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			for range releases / 16 {
				if err := s.Release(t.Context(), lock.Lease{Request: request("k"), Token: holder.Token}); !errors.Is(err, lock.ErrNotHeld) {
					assert.ErrorIs(t, err, lock.ErrNotHeld)
				}
			}
		})
	}
	work.Wait()
	assert.Equal(t, before, rdb.Get(t.Context(), key).Val())
	assert.EqualValues(t, 1, queued())
	assert.Greater(t, rdb.PTTL(t.Context(), key).Val(), 50*time.Minute, "no renewal has set it")
	require.NoError(t, s.Release(t.Context(), holder))
	report.Add("guesses      %d renewals, %d releases, no effect", renewals, releases)
}
