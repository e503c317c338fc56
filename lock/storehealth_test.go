package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// addressed is a store with addresses.
type addressed struct {
	*locktest.Faulty
	addresses []string
}

func (s addressed) Describe() driver.Description { return driver.Description{Addresses: s.addresses} }

// logged runs a test with a client that logs to a text.
func logged(t *testing.T, test func(t *testing.T, b *bench, log *strings.Builder)) {
	t.Helper()
	var log strings.Builder
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: drop}))}
	waiting(t, o, func(t *testing.T, b *bench) { test(t, b, &log) })
}

func TestAnUnavailableStoreIsLoggedOnce(t *testing.T) {
	logged(t, func(t *testing.T, b *bench, log *strings.Builder) {
		try := func() error {
			_, err := b.Mutex("k").TryLock(ctx)
			return err
		}
		b.loseRequests(fails(errIO))
		for range 100 {
			require.Error(t, try())
			settle(time.Second)
		}
		assert.Equal(t, "level=WARN msg=\"lock: store unavailable\" error=\"connection reset\"\n", log.String())
		log.Reset()
		b.heal()
		require.NoError(t, try())
		require.ErrorIs(t, try(), lock.ErrNotAcquired)
		synctest.Wait() // a goroutine writes the record
		assert.Equal(t, "level=INFO msg=\"lock: the store answers again\" after=1m40s\n", log.String())
		log.Reset()
		b.loseRequests(fails(errIO))
		require.Error(t, try())
		synctest.Wait()
		assert.Contains(t, log.String(), "store unavailable", "it is another outage")
	})
}

// A store that fails and answers by turns is logged at a bounded rate.
func TestAStoreThatComesAndGoes(t *testing.T) {
	logged(t, func(t *testing.T, b *bench, log *strings.Builder) {
		for range 100 {
			for _, fault := range []func(context.Context, locktest.Op) error{fails(errIO), nil} {
				b.loseRequests(fault)
				if h, err := b.Mutex("k").TryLock(ctx); err == nil {
					require.NoError(t, h.Unlock(ctx))
				}
				settle(2 * time.Second)
			}
		}
		assert.Equal(t, 34, strings.Count(log.String(), "unavailable"), "one in 12 of 400 s")
	})
}

func TestRenewalsAndHungCallsShowThatTheStoreIsUnavailable(t *testing.T) {
	logged(t, func(t *testing.T, b *bench, log *strings.Builder) {
		b.lock("k")
		b.loseRequests(always(locktest.Renew, errIO))
		settle(15 * time.Second)
		assert.Contains(t, log.String(), "store unavailable")
		b.heal()
		settle(30 * time.Second)
		assert.Contains(t, log.String(), "answers again")
		log.Reset()
		b.loseRequests(hang(locktest.Acquire))
		for _, c := range []struct {
			patience time.Duration
			logs     bool
		}{{10 * time.Millisecond, false}, {2 * time.Second, true}} {
			short, cancel := context.WithTimeout(ctx, c.patience)
			_, err := b.Mutex("other").TryLock(short)
			cancel()
			unavailability(t, err)
			synctest.Wait()
			assert.Equal(t, c.logs, strings.Contains(log.String(), "no answer before the caller gave up"))
		}
	})
}

func TestTheLogNamesTheServers(t *testing.T) {
	for want, addresses := range map[string][]string{
		`addresses=[localhost:1]`:         {"localhost:1"},
		`addresses="[1 2 3 4 5 6 7 8 ...`: {"1", "2", "3", "4", "5", "6", "7", "8", "9"},
		`unavailable" error`:              nil,
	} {
		var log strings.Builder
		store := addressed{(&locktest.Faulty{Before: func(context.Context, locktest.Op) error { return errIO }}).Over(memstore.New()), addresses}
		client, err := lock.New(driver.Store(store), &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		_, err = client.Inspect(ctx, "k")
		unavailability(t, err)
		require.NoError(t, client.Close(ctx)) // has written the record
		assert.Contains(t, log.String(), want)
	}
}

// stuck is a slog.Handler that blocks until a channel is closed.
type stuck struct {
	slog.Handler
	until chan struct{}
}

func (s *stuck) Handle(context.Context, slog.Record) error { <-s.until; return nil }

// A Logger that blocks costs no lease and no context, and Close waits a second for it.
func TestALoggerThatBlocksHoldsUpNothing(t *testing.T) {
	handler := &stuck{Handler: slog.NewTextHandler(new(strings.Builder), nil)}
	waiting(t, &lock.Options{Logger: slog.New(handler)}, func(t *testing.T, b *bench) {
		handler.until = make(chan struct{}) // of the bubble
		defer close(handler.until)
		h := b.lock("k")
		lost := b.lock("lost")
		b.mem.Delete("lost")
		b.loseRequests(always(locktest.Renew, errIO))
		settle(12 * time.Second) // one renewal fails, and the store counts as unavailable
		b.heal()
		settle(10 * time.Minute)
		require.NoError(t, h.Err())
		assert.True(t, h.Valid())
		require.ErrorIs(t, lost.Err(), lock.ErrLost, "the holder is told")

		b.loseRequests(fails(errIO))
		start := time.Now()
		_, err := b.Mutex("other").TryLock(ctx)
		unavailability(t, err)
		assert.Zero(t, time.Since(start))
		b.heal()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = b.Mutex("k").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))

		require.NoError(t, b.Close(ctx))
		assert.Equal(t, 2*time.Second, time.Since(start))
		b.closed.Store(true)
	})
}
