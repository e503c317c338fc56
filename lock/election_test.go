package lock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
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
