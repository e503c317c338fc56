package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// The whole line on a server that fails: lock client, watchdog, either engine.

const (
	lineTTL    = 2 * time.Second
	lineLeases = 300

	// wide is a margin that a busy machine does not eat up.
	wide = 300 * time.Millisecond
)

// line is a client with leases on a server of its own.
type line struct {
	server *testredis.Server
	rdb    *redis.Client
	client *lock.Client
	held   []*lock.Held
}

func onEngines(t *testing.T, ttl, margin time.Duration, test func(t *testing.T, l *line)) {
	t.Helper()
	for _, engine := range []string{"wheel", "heap"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, newLine(t, engine, ttl, margin))
		})
	}
}

func newLine(t *testing.T, engine string, ttl, margin time.Duration) *line {
	t.Helper()
	l := &line{server: testredis.Start(t)}
	l.rdb = l.server.Client(t)
	store, err := New(l.rdb, nil)
	require.NoError(t, err)
	o := &lock.Options{Terms: lock.Terms{TTL: ttl}, Renewal: renewal.Options{Margin: margin}}
	if engine == "heap" {
		heap, err := heapqueue.NewScheduler(nil)
		require.NoError(t, err)
		t.Cleanup(func() { heap.Close() })
		o.Scheduler = heap
	}
	l.client, err = lock.New(store, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, l.client.Close(ctx))
	})
	for i := range lineLeases {
		h, err := l.client.Mutex(fmt.Sprint("line:", i)).Lock(t.Context())
		require.NoError(t, err)
		l.held = append(l.held, h)
	}
	time.Sleep(ttl / 3) // renewals are under way
	return l
}

// all checks that every lease is held.
func (l *line) all(t *testing.T) {
	t.Helper()
	for _, h := range l.held {
		require.NoError(t, h.Err(), h.Key())
		require.True(t, h.Valid())
	}
}

// told waits until every holder has been told, and returns the reasons.
func (l *line) told(t *testing.T) map[renewal.Reason]int {
	t.Helper()
	reasons := map[renewal.Reason]int{}
	for _, h := range l.held {
		select {
		case <-h.Done():
		case <-time.After(5 * lineTTL):
			require.Fail(t, "never told", h.Key())
		}
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.False(t, h.Valid())
		reasons[lost.Reason]++
	}
	return reasons
}

func TestAServerThatHangsForHalfATTLCostsNothing(t *testing.T) {
	t.Parallel()
	// What is left of a lease when its renewal is due must outlast the silence, by
	// more than a busy machine takes: by 0.7 s here.
	const ttl = 5 * time.Second
	onEngines(t, ttl, 0, func(t *testing.T, l *line) {
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
	onEngines(t, lineTTL, wide, func(t *testing.T, l *line) {
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
				assert.Less(t, time.Since(deadline), wide+lineTTL/100, "%s: told after the server could have given it away", h.Key())
			})
		}
		wg.Wait()
		l.told(t)
		time.Sleep(2*lineTTL - time.Since(stopped))
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
	onEngines(t, lineTTL, 0, func(t *testing.T, l *line) {
		require.NoError(t, l.server.Restart())
		reasons := l.told(t)
		assert.Equal(t, lineLeases, reasons[renewal.NotOwned], "%v", reasons)
	})
}

func TestWhatAServerForgetsBesideDataCostsNothing(t *testing.T) {
	t.Parallel()
	onEngines(t, lineTTL, 0, func(t *testing.T, l *line) {
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
	onEngines(t, lineTTL, 0, func(t *testing.T, l *line) {
		const gone = 137
		for i, h := range l.held[:gone] {
			key := "lw:{" + h.Key() + "}"
			if i%2 == 0 {
				require.NoError(t, l.rdb.Del(t.Context(), key).Err())
			} else {
				require.NoError(t, l.rdb.Set(t.Context(), key, "another 1", time.Minute).Err())
			}
		}
		time.Sleep(lineTTL)
		for i, h := range l.held {
			if i >= gone {
				require.NoError(t, h.Err())
				continue
			}
			var lost *renewal.LostError
			require.ErrorAs(t, h.Err(), &lost, "%s was not told", h.Key())
			assert.Equal(t, renewal.NotOwned, lost.Reason)
		}
		assert.EqualValues(t, gone, l.client.Stats().Renewal.Lost())
	})
}
