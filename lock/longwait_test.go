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

const longWait = `level=WARN msg="lock: Lock waits for long"`

// A Lock that waits for long is reported once, with the holder's metadata.
func TestALongWaitIsReported(t *testing.T) {
	log := new(syncBuffer)
	waiting(t, &lock.Options{Logger: log.logger(), Terms: lock.Terms{Metadata: "host 7"}}, func(t *testing.T, b *bench) {
		held, err := b.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		result := make(chan error)
		for range 3 {
			go func() {
				h, err := b.Mutex("a").Lock(t.Context())
				if err == nil {
					err = h.Unlock(t.Context())
				}
				result <- err
			}()
		}
		settle(29 * time.Second)
		assert.NotContains(t, log.String(), longWait)
		settle(3 * time.Second)
		assert.Contains(t, log.String(), longWait+` key=a waited=30s calls=3 holders=1`)
		assert.Contains(t, log.String(), `holder.metadata="host 7" holder.token=`)
		settle(time.Hour)
		assert.Equal(t, 1, strings.Count(log.String(), longWait))
		require.NoError(t, held.Unlock(t.Context()))
		for range 3 {
			require.NoError(t, <-result)
		}
	})
}

// Options.WarnAfter sets the time, and turns the warning off. A Campaign is never reported.
func TestWarnAfter(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 1, 2*time.Minute - time.Millisecond: 1, time.Hour: 0, -1: 0} {
		log := new(syncBuffer)
		waiting(t, &lock.Options{Logger: log.logger(), WarnAfter: after}, func(t *testing.T, b *bench) {
			for _, l := range []lock.Locker{b.Mutex("a"), b.Election("e", "me")} {
				_, err := l.Lock(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				_, err = l.Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			assert.Equal(t, want, strings.Count(log.String(), longWait), "%v: %s", after, log)
		})
	}
}

// Many calls for one key make one record, and a store that hangs or fails does not keep
// Close waiting.
func TestAStoreThatHangsDoesNotDelayTheReport(t *testing.T) {
	log := new(syncBuffer)
	bubbleWith(t, &lock.Options{Logger: log.logger()}, func(t *testing.T, b *bench) {
		_, err := b.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = b.Mutex("a").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, log.String(), longWait+" key=a waited=30s calls=1\n", "the store cannot inspect")
	})

	log = new(syncBuffer)
	waiting(t, &lock.Options{Logger: log.logger()}, func(t *testing.T, b *bench) {
		_, err := b.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		go func() { _, _ = b.Mutex("a").Lock(t.Context()) }()
		settle(10 * time.Second)
		b.loseRequests(hang(locktest.Inspect))
		settle(21 * time.Second)
		begin := time.Now()
		require.NoError(t, b.Close(context.Background()))
		assert.Less(t, time.Since(begin), time.Second)
	})
}
