package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/schedule"
)

func TestAWriterBecomesAReader(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		rw := b.RWMutex("k")
		w := b.wlock("k")
		writing, stop := w.Context(ctx)
		defer stop()
		waits, next := b.pend(rw.RLocker()), b.pend(rw)
		settle(time.Minute)

		r, err := rw.Downgrade(ctx, w)
		require.NoError(t, err)
		assert.Equal(t, w.Token(), r.Token())
		assert.True(t, r.Valid())
		assert.Equal(t, `read lease of "k"`, r.String())
		assert.WithinDuration(t, time.Now().Add(ttl), r.Deadline(), ttl/20, "with its full TTL")
		<-w.Done()
		synctest.Wait()
		assert.False(t, w.Valid())
		require.ErrorIs(t, w.Err(), lock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(writing), lock.ErrNotHeld)
		require.ErrorIs(t, w.Unlock(ctx), lock.ErrNotHeld)
		assert.True(t, r.Valid(), "which was not the reader's")

		other := <-waits // with it
		assert.Greater(t, other.Token(), r.Token())
		require.Empty(t, next)
		assert.Equal(t, 2, b.Stats().Renewal.Held)
		settle(time.Hour)
		assert.True(t, r.Valid() && other.Valid(), "they are renewed")
		require.NoError(t, other.Unlock(ctx))
		synctest.Wait()
		require.Empty(t, next)
		require.NoError(t, r.Unlock(ctx))
		require.NoError(t, (<-next).Unlock(ctx))
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

// The writer's handle is not valid any more when the store may have admitted other readers.
func TestAWriterEndsBeforeOthersRead(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		w := b.wlock("k")
		asked := false
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				asked = true
				assert.False(t, w.Valid())
				assert.ErrorIs(t, w.Err(), lock.ErrNotHeld)
				time.Sleep(ttl / 2)
				assert.Equal(t, 1, b.Stats().Renewal.Held, "it is renewed all the while")
			}
			return nil
		})
		r, err := b.RWMutex("k").Downgrade(ctx, w)
		require.NoError(t, err)
		assert.True(t, asked)
		assert.Positive(t, b.calls(locktest.Renew))
		b.heal()
		require.NoError(t, r.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
	})
}

func TestADowngradeToleratesALostAnswer(t *testing.T) {
	for name, lose := range map[string]func(*bench){
		"the request is lost": func(b *bench) { b.loseRequests(once(locktest.Acquire, errIO)) },
		"the answer is lost":  func(b *bench) { b.loseAnswers(once(locktest.Acquire, errIO)) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				var released []driver.Lease
				b.store.Over(releaseSpy{b.mem, &released})
				w := b.wlock("k")
				lose(b)
				r, err := b.RWMutex("k").Downgrade(ctx, w)
				require.NoError(t, err)
				assert.Equal(t, w.Token(), r.Token())
				require.NoError(t, r.Unlock(ctx))
				// The late execution of the request without an answer acquires nothing.
				_, err = b.mem.Acquire(ctx, released[0].Request)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
				assert.Zero(t, b.mem.Len())
			})
		})
	}
}

// A failed downgrade leaves no lock behind and returns the reason.
func TestADowngradeThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		fail  func(b *bench)
		want  error
		tries int
	}{
		"the store fails":         {func(b *bench) { b.loseRequests(always(locktest.Acquire, errIO)) }, errIO, 2},
		"another try cannot help": {func(b *bench) { b.loseRequests(always(locktest.Acquire, lock.ErrWrongType)) }, lock.ErrWrongType, 1},
		"no answer comes":         {func(b *bench) { b.loseAnswers(always(locktest.Acquire, errIO)) }, errIO, 2},
		"the client was closed":   {func(b *bench) { assert.NoError(b.t, b.Close(ctx)) }, lock.ErrClosed, 0},
		"it was lost":             {func(b *bench) { b.mem.Delete("k") }, lock.ErrLost, 1},
		"it was lost, and another has it": {func(b *bench) {
			b.mem.Delete("k")
			_, err := b.mem.Acquire(ctx, driver.Request{Key: "k", Owner: "other:1", Mode: driver.Write, TTL: time.Second})
			require.NoError(b.t, err)
		}, lock.ErrLost, 1},
		"its time had passed": {func(b *bench) {
			b.loseRequests(always(locktest.Renew, errIO))
			time.Sleep(ttl)
		}, lock.ErrLost, 0},
		"its renewals failed, and the store still has it": {func(b *bench) {
			b.loseRequests(always(locktest.Renew, errIO))
			time.Sleep(ttl * 5 / 6)
			require.Equal(b.t, 1, b.mem.Len())
		}, lock.ErrLost, 0},
		"it hangs": {func(b *bench) { b.loseRequests(hang(locktest.Acquire)) }, context.DeadlineExceeded, 1},
		"the client is closed": {func(b *bench) {
			b.loseRequests(func(ctx context.Context, op locktest.Op) error {
				if op == locktest.Acquire {
					go b.Close(context.Background())
					<-ctx.Done()
				}
				return nil
			})
		}, lock.ErrClosed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				w := b.wlock("k")
				asked := b.calls(locktest.Acquire)
				tc.fail(b)
				limited, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				r, err := b.RWMutex("k").Downgrade(limited, w)
				require.ErrorIs(t, err, tc.want)
				require.ErrorContains(t, err, `downgrade "k"`)
				assert.Equal(t, tc.tries, b.calls(locktest.Acquire)-asked)
				assert.Nil(t, r)
				assert.False(t, w.Valid())
				require.Error(t, w.Err())
				require.Error(t, w.Unlock(ctx))
				b.heal()
				settle(2 * time.Second)
				assert.Zero(t, b.mem.Len())
				assert.Zero(t, b.Stats().Renewal.Held)
				assert.Zero(t, b.Stats().Releasing)
			})
		})
	}
}

func TestADowngradeThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		w, r, other, mutex := b.wlock("k"), b.rlock("r"), b.wlock("other"), b.lock("m")
		rw := b.RWMutex("k")
		stranger, err := lock.New(b.mem, nil)
		require.NoError(t, err)
		gone := b.wlock("gone")
		require.NoError(t, gone.Unlock(ctx))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		asked := b.calls(locktest.Acquire)
		for name, tc := range map[string]struct {
			lock *lock.RWMutex
			ctx  context.Context
			held *lock.Held
			want string
		}{
			"no handle":                {rw, ctx, nil, "not held"},
			"the zero handle":          {rw, ctx, new(lock.Held), "not held"},
			"a reader":                 {b.RWMutex("r"), ctx, r, "not that of a writer"},
			"another key's":            {rw, ctx, other, "not that of a writer"},
			"another kind's":           {b.RWMutex("m"), ctx, mutex, "not that of a writer"},
			"another client's":         {stranger.RWMutex("k"), ctx, w, "not that of a writer"},
			"an unlocked one":          {b.RWMutex("gone"), ctx, gone, "not held"},
			"no ctx":                   {rw, nil, w, "the context is nil"},
			"a ctx that has ended":     {rw, ended, w, "context canceled"},
			"a lock that was not made": {new(lock.RWMutex), ctx, w, "not made by a Client"},
			"no lock":                  {nil, ctx, w, "not made by a Client"},
		} {
			_, err := tc.lock.Downgrade(tc.ctx, tc.held)
			require.ErrorContains(t, err, tc.want, name)
		}
		assert.Equal(t, asked, b.calls(locktest.Acquire), "without a word to the store")
		assert.True(t, w.Valid() && r.Valid() && other.Valid() && mutex.Valid(), "all is as it was")
		require.NoError(t, w.Unlock(ctx))
		_, err = rw.Downgrade(ctx, w)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.NoError(t, stranger.Close(ctx))
	})
}

// A downgrade needs two entries for a moment, but the engine may have room for only one.
func TestADowngradeOnAFullEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := heapqueue.NewScheduler(&heapqueue.Options{MaxPending: 1})
		require.NoError(t, err)
		mem := memstore.New()
		var asked atomic.Int64
		store := (&locktest.Faulty{Before: func(_ context.Context, op locktest.Op) error {
			if op != locktest.Renew {
				asked.Add(1)
			}
			return nil
		}}).Over(mem)
		c, err := lock.New(store, &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		w, err := c.RWMutex("k").Lock(ctx)
		require.NoError(t, err)
		inside, stop := w.Context(ctx)
		defer stop()
		before := asked.Load()
		for range 2 {
			_, err = c.RWMutex("k").Downgrade(ctx, w)
			require.ErrorIs(t, err, schedule.ErrFull)
			require.NoError(t, w.Err(), "it holds the lock as before")
		}
		synctest.Wait()
		require.NoError(t, inside.Err())
		settle(2 * ttl)
		assert.Equal(t, before, asked.Load(), "the store was not asked")
		assert.True(t, w.Valid(), "and is renewed")
		require.NoError(t, w.Unlock(ctx))
		assert.Zero(t, mem.Len())
		require.NoError(t, c.Close(ctx))
		engine.Close()
	})
}

// The maximum hold counts from the acquisition, not from the downgrade.
func TestTermsOfADowngrade(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		start := time.Now()
		limited := b.With(lock.Terms{MaxHold: time.Minute}).RWMutex("limited")
		fixed := b.With(lock.Terms{Fixed: true}).RWMutex("fixed")
		w := lockAll(t, limited)
		f := lockAll(t, fixed)
		settle(ttl / 2)
		r, err := limited.Downgrade(ctx, w)
		require.NoError(t, err)
		f, err = fixed.Downgrade(ctx, f)
		require.NoError(t, err)
		<-f.Done()
		assert.InDelta(t, ttl.Seconds(), time.Since(start).Seconds(), 1, "a fixed lease ends one TTL after it was got")
		<-r.Done()
		require.ErrorIs(t, r.Err(), lock.ErrLost)
		assert.InDelta(t, time.Minute.Seconds(), time.Since(start).Seconds(), 1)
		require.ErrorIs(t, r.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, f.Unlock(ctx), lock.ErrLost)
	})
}

// A writer that is lost during the request does not become a reader.
func TestALossDuringADowngrade(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		w := b.wlock("k")
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Renew {
				return errIO
			}
			if op == locktest.Acquire {
				time.Sleep(2 * ttl)
			}
			return nil
		})
		_, err := b.RWMutex("k").Downgrade(ctx, w)
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, lock.ErrNotHeld)
		b.heal()
		settle(time.Second)
		assert.Zero(t, b.mem.Len())
	})
}

// A request without an answer is remembered even if the next request is answered. The TTL
// counts from the Sent of the store if the store sets it.
func TestADowngradeOnAStoreThatSaysWhen(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(t *testing.T, b *bench) {
			var released []driver.Lease
			b.store.Over(dated{releaseSpy{b.mem, &released}})
			w := b.wlock("k")
			settle(ttl / 10) // before its first renewal
			if lost {
				b.loseAnswers(once(locktest.Acquire, errIO))
			}
			r, err := b.RWMutex("k").Downgrade(ctx, w)
			require.NoError(t, err)
			assert.Equal(t, ttl*98/100-time.Second, time.Until(r.Deadline()))
			require.NoError(t, r.Unlock(ctx))
			assert.Equal(t, lost, released[0].Unanswered)
		})
	}
}

// dated is a store whose leases count from one second before the request.
type dated struct{ releaseSpy }

func (s dated) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	sent := time.Now().Add(-time.Second)
	l, err := s.releaseSpy.Acquire(ctx, r)
	l.Sent = sent
	return l, err
}

func TestADowngradeInAPanicOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var released []driver.Lease
		b.store.Over(releaseSpy{b.mem, &released})
		w := b.wlock("k")
		b.loseRequests(panics(locktest.Acquire))
		assert.PanicsWithValue(t, "oops", func() { _, _ = b.RWMutex("k").Downgrade(ctx, w) })
		synctest.Wait()
		assert.Zero(t, b.Stats().Renewal.Held, "it has no handle")
		assert.Zero(t, b.mem.Len())
		assert.True(t, released[0].Unanswered)
	})
}
