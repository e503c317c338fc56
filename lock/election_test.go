package lock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestElectionHasOneLeader(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		none, err := b.Election("e", "").Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, lock.Leader{}, none)

		a, err := b.Election("e", "a").Campaign(ctx)
		require.NoError(t, err)
		_, err = b.Election("e", "b").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		next := make(chan *lock.Held, 1)
		go func() {
			h, err := b.Election("e", "b").Lock(ctx) // which is Campaign
			assert.NoError(t, err)
			next <- h
		}()
		settle(2 * ttl)
		require.NoError(t, a.Err(), "it is renewed")
		leader, err := b.Election("e", "").Leader(ctx)
		require.NoError(t, err)
		assert.Positive(t, leader.ExpiresIn)
		leader.ExpiresIn = 0
		assert.Equal(t, lock.Leader{Name: "a", Term: a.Token(), Elected: true}, leader)

		require.NoError(t, a.Unlock(ctx)) // resigns
		second := <-next
		assert.Greater(t, second.Token(), a.Token(), "terms rise")
		leader, err = b.Election("e", "").Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, "b", leader.Name)
	})
}

// Each leadership has its own token, even among goroutines of one client.
func TestElectionTermsRiseWithinAClient(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		first, err := b.Election("e", "a").Campaign(context.Background())
		require.NoError(t, err)
		next := make(chan *lock.Held, 1)
		go func() {
			h, err := b.Election("e", "a").Campaign(context.Background())
			assert.NoError(t, err)
			next <- h
		}()
		synctest.Wait()
		require.NoError(t, first.Unlock(context.Background()))
		assert.Greater(t, (<-next).Token(), first.Token())
	})
}

func TestObserveTellsEachChange(t *testing.T) {
	bubbleWith(t, &lock.Options{Terms: lock.Terms{TTL: 10 * time.Second}}, func(t *testing.T, b *bench) {
		b.store.Over(b.mem) // inspects
		ctx, cancel := context.WithCancel(context.Background())
		var seen []lock.Leader
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for leader, err := range b.Election("e", "").Observe(ctx) {
				assert.NoError(t, err)
				leader.ExpiresIn = 0
				seen = append(seen, leader)
			}
		}()
		var want []lock.Leader
		want = append(want, lock.Leader{})
		settle(0)
		for _, name := range []string{"a", "b", "b"} { // the last with another term
			h, err := b.Election("e", name).Campaign(context.Background())
			require.NoError(t, err)
			settle(12 * time.Second) // renewals are no change
			want = append(want, lock.Leader{Name: name, Term: h.Token(), Elected: true})
			require.NoError(t, h.Unlock(context.Background()))
			if name == "a" {
				settle(time.Second)
				want = append(want, lock.Leader{})
			}
		}
		settle(time.Second)
		want = append(want, lock.Leader{})
		looks := b.calls(locktest.Inspect)
		settle(10 * time.Second)
		assert.Equal(t, looks+10, b.calls(locktest.Inspect), "ten looks in a TTL")
		cancel()
		<-observed
		assert.Equal(t, want, seen)
		assert.Equal(t, looks+10, b.calls(locktest.Inspect), "none after its end")
	})
}

func TestObserveEndsWithItsReader(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		for range b.Election("e", "").Observe(context.Background()) {
			break
		}
		assert.Equal(t, 1, b.calls(locktest.Inspect))
	})
}

func TestObserveTellsOfFailures(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		b.loseRequests(once(locktest.Inspect, errIO))
		var errs, leaders int
		start := time.Now()
		for _, err := range b.Election("e", "").Observe(context.Background()) {
			if err != nil {
				require.ErrorIs(t, err, errIO)
				errs++
				continue
			}
			leaders++
			break
		}
		assert.Equal(t, []int{1, 1}, []int{errs, leaders}, "it goes on")
		assert.Equal(t, 3*time.Second, time.Since(start))

		require.NoError(t, b.Close(context.Background()))
		for _, err := range b.Election("e", "").Observe(context.Background()) {
			require.ErrorIs(t, err, lock.ErrClosed) // once
			errs++
		}
		assert.Equal(t, 2, errs)
	})
}

func TestElectionRefuses(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		var none context.Context
		ctx := context.Background()
		for _, name := range []string{"", strings.Repeat("n", lock.MaxMetadataLen+1)} {
			_, err := b.Election("e", name).Campaign(ctx)
			require.ErrorContains(t, err, "the name of a candidate")
		}
		longest, err := b.Election("long", strings.Repeat("n", lock.MaxMetadataLen)).TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, longest.Unlock(ctx))
		_, err = b.Election("", "a").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadKey)
		_, err = b.Election("e", "a").Leader(none)
		require.Error(t, err)
		_, err = (*lock.Election)(nil).Campaign(ctx)
		require.Error(t, err)
		var client *lock.Client
		_, err = client.Election("e", "a").Campaign(ctx)
		require.Error(t, err)
		for _, err := range b.Election("e", "a").Observe(none) {
			require.Error(t, err)
		}
		for _, err := range (*lock.Election)(nil).Observe(ctx) {
			require.Error(t, err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for range b.Election("e", "a").Observe(ended) {
			require.Fail(t, "its ctx has ended")
		}
	})
}

// A leader that is cut off has a successor within one TTL, and is notified before that.
func TestALeaderThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var down atomic.Bool
		cut := (&locktest.Faulty{Before: func(context.Context, locktest.Op) error {
			if down.Load() {
				return errIO
			}
			return nil
		}}).Over(locktest.Plain(mem))
		a, err := lock.New(locktest.Plain(cut), nil)
		require.NoError(t, err)
		b, err := lock.New(unclosed{mem}, nil)
		require.NoError(t, err)
		first, err := a.Election("e", "a").Campaign(context.Background())
		require.NoError(t, err)
		down.Store(true)
		start := time.Now()
		second, err := b.Election("e", "b").Campaign(context.Background())
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), ttl)
		require.ErrorIs(t, first.Err(), lock.ErrLost)
		assert.Greater(t, second.Token(), first.Token())
		require.NoError(t, b.Close(context.Background()))
		require.NoError(t, a.Close(context.Background()))
	})
}
