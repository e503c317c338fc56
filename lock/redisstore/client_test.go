package redisstore

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestAServerThatHangsForHalfATTLCostsNothing(t *testing.T) {
	t.Parallel()
	// What is left of a lease when its renewal is due must outlast the silence, by
	// more than a busy machine takes: by 0.7 s here.
	const ttl = 5 * time.Second
	onEngines(t, layout{ttl: ttl}, func(t *testing.T, l *line) {
		require.NoError(t, l.server.Stop())
		time.Sleep(ttl / 2)
		require.NoError(t, l.server.Cont())
		time.Sleep(ttl / 2)
		l.all(t)
		assert.Zero(t, l.client.Stats().Renewal.Lost())
	})
}

func TestAServerThatHangsForTwoTTLsIsToldOfInTime(t *testing.T) {
	t.Parallel()
	const ttl = 3 * lineTTL
	onEngines(t, layout{ttl: ttl, margin: wide}, func(t *testing.T, l *line) {
		require.NoError(t, l.server.Stop())
		stopped := time.Now()
		tokens := map[string]uint64{}
		var wg sync.WaitGroup
		for _, h := range l.held {
			tokens[h.Key()] = h.Token()
			wg.Go(func() {
				deadline := lastDeadline(h)
				// The server keeps a key until after this instant: a TTL after the
				// sending of the last request that it has confirmed.
				assert.Less(t, time.Since(deadline), wide+ttl/100, "%s: told after the server could have given it away", h.Key())
			})
		}
		wg.Wait()
		l.told(t)
		time.Sleep(2*ttl - time.Since(stopped))
		require.NoError(t, l.server.Cont())

		other, err := New(l.rdb, nil)
		require.NoError(t, err)
		defer other.Close()
		for _, h := range l.held {
			r := request(h.Key())
			lease, err := other.Acquire(t.Context(), r)
			var held *lock.HeldError
			if errors.As(err, &held) { // the server was stopped in the middle of renewing it
				time.Sleep(held.ExpiresIn + 5*time.Millisecond)
				lease, err = other.Acquire(t.Context(), r)
			}
			require.NoError(t, err, "free within a TTL of the last message")
			assert.Greater(t, lease.Token, tokens[h.Key()])
		}
		for _, h := range l.held {
			require.ErrorIs(t, h.Unlock(t.Context()), lock.ErrLost)
			_, err := other.Acquire(t.Context(), request(h.Key()))
			require.ErrorIs(t, err, lock.ErrNotAcquired, "the late Unlock took nothing from the next holder")
		}
	})
}

// lastDeadline waits for the end of a lease and returns the last deadline that it
// had. An answer that has left the server may still move that.
func lastDeadline(h *lock.Held) time.Time {
	deadline := h.Deadline()
	for {
		select {
		case <-h.Done():
			return deadline
		case <-time.After(10 * time.Millisecond):
			if d := h.Deadline(); !d.IsZero() {
				deadline = d
			}
		}
	}
}

func TestAServerThatLostItsDataIsToldOf(t *testing.T) {
	t.Parallel()
	onEngines(t, layout{ttl: 9 * time.Second}, func(t *testing.T, l *line) { // it is back for the first renewals or the second ones
		require.NoError(t, l.server.Restart())
		reasons := l.told(t)
		assert.Equal(t, len(l.held), reasons[renewal.NotOwned], "%v", reasons)
	})
}

func TestWhatAServerForgetsBesideDataCostsNothing(t *testing.T) {
	t.Parallel()
	onEngines(t, layout{}, func(t *testing.T, l *line) {
		for range 3 {
			require.NoError(t, l.rdb.ScriptFlush(t.Context()).Err())
			require.NoError(t, l.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
			time.Sleep(lineTTL / 3)
		}
		time.Sleep(lineTTL)
		l.all(t)
		require.NoError(t, l.rdb.ScriptFlush(t.Context()).Err())
		for _, h := range l.held {
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}

func TestExactlyTheHoldersOfDeletedKeysAreTold(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	onEngines(t, layout{ttl: ttl, leases: 1000}, func(t *testing.T, l *line) {
		const gone = 137
		rand.Shuffle(len(l.held), func(i, j int) { l.held[i], l.held[j] = l.held[j], l.held[i] }) // they share batches
		for i, h := range l.held[:gone] {
			key := "lw:{" + h.Key() + "}"
			if i%2 == 0 {
				require.NoError(t, l.rdb.Del(t.Context(), key).Err())
			} else {
				require.NoError(t, l.rdb.Set(t.Context(), key, "another 1", time.Minute).Err())
			}
		}
		aPeriod := time.After(ttl/3 + ttl/3) // and as much for a busy machine
		for _, h := range l.held[:gone] {
			select {
			case <-h.Done():
			case <-aPeriod:
				require.Fail(t, "not told within a period", h.Key())
			}
			var lost *renewal.LostError
			require.ErrorAs(t, h.Err(), &lost)
			assert.Equal(t, renewal.NotOwned, lost.Reason)
		}
		time.Sleep(ttl / 3)
		for _, h := range l.held[gone:] {
			require.NoError(t, h.Err())
		}
		assert.EqualValues(t, gone, l.client.Stats().Renewal.Lost())
	})
}

func TestAServerThatComesBackWithItsDataCostsNothing(t *testing.T) {
	t.Parallel()
	onEngines(t, layout{ttl: 3 * lineTTL, durable: true}, func(t *testing.T, l *line) {
		l.server.Kill()
		require.Eventually(t, func() bool { return l.client.Stats().Renewal.Unknown > 0 }, l.ttl, time.Millisecond)
		require.NoError(t, l.server.Restart())
		l.renewedAfter(t, time.Now())
		l.all(t)
	})
}

func TestConnectionsThatBreakCostNothing(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	proxy := testredis.StartProxy(t, server)
	const ttl = 3 * lineTTL
	l := newLine(t, proxy.Client(t), layout{ttl: ttl})
	time.Sleep(ttl / 6) // all were renewed in the half period before
	for range 10 {      // the half in which all are again: no second try is hit
		proxy.Swallow() // so that there are requests under way
		time.Sleep(ttl / 60)
		proxy.Reset()
		proxy.Pass()
	}
	l.renewedAfter(t, time.Now())
	l.all(t)
	assert.NotZero(t, l.client.Stats().Renewal.Unknown)
	for _, h := range l.held {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// TestANetworkThatIsSilentForAWhile: what is sent meanwhile gets no answer, nor do
// the connections that are made then.
func TestANetworkThatIsSilentForAWhile(t *testing.T) {
	t.Parallel()
	const ttl, silence = 15 * time.Second, 5 * time.Second
	server := testredis.Start(t)
	proxy := testredis.StartProxy(t, server)
	l := newLine(t, proxy.Client(t), layout{ttl: ttl})
	proxy.Swallow()
	time.Sleep(silence)
	proxy.Pass()
	l.renewedAfter(t, time.Now())
	l.all(t)
	assert.Zero(t, l.client.Stats().Renewal.Lost())
}
