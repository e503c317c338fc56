package lock_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// got is what a call of Lock returned.
type got struct {
	held *lock.Held
	err  error
}

// waiter calls Lock and returns when it waits.
func waiter(ctx context.Context, l lock.Locker) <-chan got {
	c := make(chan got, 1)
	go func() {
		h, err := l.Lock(ctx)
		c <- got{h, err}
	}()
	synctest.Wait()
	return c
}

func (b *bench) unlock(h *lock.Held) {
	b.t.Helper()
	require.NoError(b.t, h.Unlock(ctx))
	synctest.Wait()
}

// next returns the lock that a waiter has got.
func (b *bench) next(c <-chan got) *lock.Held {
	b.t.Helper()
	select {
	case g := <-c:
		require.NoError(b.t, g.err)
		return g.held
	default:
		require.Fail(b.t, "it still waits")
		return nil
	}
}

func twice() *lock.Options { return &lock.Options{LocalHandovers: 2} }

func TestALockIsPassedOnWithinTheClient(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		held := []*lock.Held{b.lock("k")}
		var line []<-chan got
		for range 5 {
			line = append(line, waiter(ctx, b.Mutex("k")))
		}
		assert.Equal(t, 5, b.Stats().Waiting)
		for i, c := range line {
			before := held[i]
			done := before.Done()
			b.unlock(before)
			now := b.next(c)
			assert.True(t, now.Valid())
			assert.False(t, before.Valid())
			assert.True(t, closed(done))
			require.ErrorIs(t, before.Err(), lock.ErrNotHeld)
			require.ErrorIs(t, before.Unlock(ctx), lock.ErrNotHeld, "and takes nothing from the next")
			assert.Equal(t, 4-i, b.Stats().Waiting)
			held = append(held, now)
		}
		for i, h := range held[1:] {
			if i%3 == 2 {
				assert.Greater(t, h.Token(), held[i].Token(), "after two in a row it goes to the store")
			} else {
				assert.Equal(t, held[i].Token(), h.Token(), "one lease, one token")
			}
		}
		assert.Equal(t, 2, b.calls(locktest.Wait), "the first and the fourth")
		assert.Equal(t, 1, b.calls(locktest.Release))
		b.unlock(held[5])
		b.unlock(b.lock("k"))
		assert.Equal(t, 3, b.calls(locktest.Release))
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

func TestNothingIsPassedOnByDefault(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := b.lock("k")
		c := waiter(ctx, b.Mutex("k"))
		b.unlock(h)
		assert.Greater(t, b.next(c).Token(), h.Token())
	})
	_, err := lock.New(struct{ lock.Store }{}, &lock.Options{LocalHandovers: -1})
	require.ErrorContains(t, err, "LocalHandovers")
}

func TestOtherClientsHaveTheirTurn(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		other, err := lock.New(b.mem, twice())
		require.NoError(t, err)
		defer other.Close(ctx)
		h := b.lock("k")
		line := []<-chan got{waiter(ctx, b.Mutex("k")), waiter(ctx, b.Mutex("k")), waiter(ctx, b.Mutex("k"))}
		theirs := waiter(ctx, other.Mutex("k"))
		for _, c := range line[:2] {
			b.unlock(h)
			h = b.next(c)
		}
		b.unlock(h)
		h = b.next(theirs)
		assert.Empty(t, line[2])
		b.unlock(h)
		b.unlock(b.next(line[2]))
	})
}

func TestThoseWhoDoNotWaitAnyMoreAreSkipped(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		for i := range 100 {
			h := b.lock("k")
			cancelled, cancel := context.WithCancel(ctx)
			first, second := waiter(cancelled, b.Mutex("k")), waiter(ctx, b.Mutex("k"))
			if i%2 == 0 {
				cancel()
				b.unlock(h) // it may not have noticed yet
			} else {
				go cancel()
				b.unlock(h)
			}
			cancel()
			if g := <-first; g.err == nil {
				b.unlock(g.held)
			} else {
				require.ErrorIs(t, g.err, context.Canceled)
			}
			synctest.Wait()
			b.unlock(b.next(second))
			require.Zero(t, b.Stats().Waiting)
		}
	})
}

func TestOnlyEqualTermsArePassedOn(t *testing.T) {
	waiting(t, &lock.Options{LocalHandovers: 9}, func(t *testing.T, b *bench) {
		h := b.lock("k")
		c := waiter(ctx, b.With(lock.Terms{TTL: time.Minute}).Mutex("k"))
		d := waiter(ctx, b.Mutex("k"))
		b.unlock(h)
		next := b.next(c)
		assert.Greater(t, next.Token(), h.Token())
		assert.Empty(t, d, "nobody is overtaken")
		b.unlock(next)
		b.unlock(b.next(d))

		for _, terms := range []lock.Terms{{MaxHold: time.Minute}, {Fixed: true}} {
			client := b.With(terms)
			h, err := client.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			c := waiter(ctx, client.Mutex("k"))
			b.unlock(h)
			next := b.next(c)
			assert.Greater(t, next.Token(), h.Token(), "each has its own time")
			b.unlock(next)
		}
	})
}

func TestALeaseWithLittleTimeLeftIsNotPassedOn(t *testing.T) {
	o := twice()
	o.Renewal.Failures = -1 // or the second one that fails may be it
	waiting(t, o, func(t *testing.T, b *bench) {
		h := b.lock("k")
		c := waiter(ctx, b.Mutex("k"))
		b.loseRequests(always(locktest.Renew, errIO))
		settle(time.Until(h.Deadline()) - ttl/2 + time.Second)
		require.True(t, h.Valid())
		b.unlock(h)
		assert.Greater(t, b.next(c).Token(), h.Token())
	})
}

func TestALossLetsTheLineGoOn(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		h := b.lock("k")
		c, d := waiter(ctx, b.Mutex("k")), waiter(ctx, b.Mutex("k"))
		b.mem.Delete("k")
		settle(ttl / 2)
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		next := b.next(c)
		assert.Greater(t, next.Token(), h.Token(), "though its holder has not unlocked it")
		require.ErrorAs(t, h.Unlock(ctx), &lost)
		synctest.Wait()
		assert.Empty(t, d, "nor has the next")

		b.unlock(next)
		last := b.next(d)
		assert.Equal(t, next.Token(), last.Token())
		b.mem.Delete("k")
		settle(ttl / 2)
		assert.True(t, closed(last.Done()), "who has it now is told")
		require.ErrorAs(t, last.Err(), &lost)
		require.ErrorIs(t, next.Err(), lock.ErrNotHeld, "and nobody else")
	})
}

func TestALockThatWasPassedOnIsRenewed(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		h := b.lock("k")
		c := waiter(ctx, b.Mutex("k"))
		settle(ttl / 4)
		deadline := h.Deadline()
		b.unlock(h)
		next := b.next(c)
		assert.Equal(t, deadline, next.Deadline())
		settle(3 * ttl)
		assert.True(t, next.Valid())
	})
}

func TestTheLastHandlePassesTheLockOn(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		outer, err := b.Reentrant("k").Lock(ctx)
		require.NoError(t, err)
		inside, stop := outer.Context(ctx)
		defer stop()
		inner, err := b.Reentrant("k").Lock(inside)
		require.NoError(t, err)
		c := waiter(ctx, b.Mutex("k"))
		b.unlock(outer)
		assert.Empty(t, c)
		b.unlock(inner)
		next := b.next(c)
		assert.Equal(t, outer.Token(), next.Token())
		_, err = b.Reentrant("k").Lock(inside)
		require.ErrorIs(t, err, lock.ErrNotHeld, "the ownership does not go along")
	})
}

func TestMultisPassTheirMembersOn(t *testing.T) {
	waiting(t, &lock.Options{LocalHandovers: 3}, func(t *testing.T, b *bench) {
		checker := locktest.NewExclusion()
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				x, y := lock.Locker(b.Mutex("x")), lock.Locker(b.Mutex("y"))
				if i%2 == 0 {
					x, y = y, x
				}
				for range 5 {
					h, err := lock.Multi(x, y).Lock(ctx)
					if !assert.NoError(t, err) {
						return
					}
					checker.Enter("both", 0)
					time.Sleep(time.Millisecond)
					checker.Leave("both", 0)
					assert.NoError(t, h.Unlock(ctx))
				}
			})
		}
		wg.Wait()
		assert.Empty(t, checker.Violations())
		assert.Equal(t, 30, checker.Entered())
		synctest.Wait()
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

// What a Multi hears of a member on its way is not kept from those behind it.
func TestAMultiPassesOnNothingThatIsLost(t *testing.T) {
	waiting(t, &lock.Options{LocalHandovers: 9}, func(t *testing.T, b *bench) {
		h := b.lock("x")
		both := waiter(ctx, lock.Multi(b.Mutex("x"), b.Mutex("y")))
		c, d := waiter(ctx, b.Mutex("x")), waiter(ctx, b.Mutex("x"))
		settle(ttl / 10)
		b.mem.Delete("x")
		b.loseRequests(hang(locktest.Release)) // nobody has to wait until it is given back
		b.unlock(h)
		next := b.next(c)
		require.ErrorIs(t, (<-both).err, lock.ErrNotAcquired)
		b.heal()
		assert.Greater(t, next.Token(), h.Token(), "it is asked for anew")
		assert.Empty(t, d, "by one of them")
		b.unlock(next)
		assert.Equal(t, next.Token(), b.next(d).Token())
	})
}

func TestCloseEndsWhatWouldBePassedOn(t *testing.T) {
	waiting(t, twice(), func(t *testing.T, b *bench) {
		h := b.lock("k")
		c := waiter(ctx, b.Mutex("k"))
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, (<-c).err, lock.ErrClosed)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrClosed)
	})
}

// Two clients, a store that fails, holders that lose their locks: one has the lock at
// a time, and in the end nothing is held and nobody waits.
func TestExclusionWithLocalHandovers(t *testing.T) {
	waiting(t, &lock.Options{LocalHandovers: 3}, func(t *testing.T, b *bench) {
		other, err := lock.New(b.store, &lock.Options{LocalHandovers: 1})
		require.NoError(t, err)
		defer other.Close(ctx)
		checker := locktest.NewExclusion()
		fail := func(_ context.Context, op locktest.Op) error {
			time.Sleep(rand.N(time.Millisecond))
			if op != locktest.Renew && rand.N(20) == 0 {
				return errIO
			}
			return nil
		}
		b.loseRequests(fail)
		b.loseAnswers(fail)
		var wg sync.WaitGroup
		for i := range 20 {
			m := []*lock.Client{b.Client, other}[i%2].Mutex("k")
			wg.Go(func() {
				for range 20 {
					within, cancel := context.WithTimeout(ctx, rand.N(200*time.Millisecond)+1)
					h, err := m.Lock(within)
					cancel()
					if err != nil {
						continue
					}
					checker.Enter("k", 0)
					time.Sleep(rand.N(5 * time.Millisecond))
					assert.True(t, h.Valid())
					checker.Leave("k", 0)
					_ = h.Unlock(ctx)
				}
			})
		}
		wg.Wait()
		b.heal()
		settle(2 * ttl)
		assert.Empty(t, checker.Violations())
		assert.Positive(t, checker.Entered())
		assert.Zero(t, b.Stats().Renewal.Held+other.Stats().Renewal.Held)
		assert.Zero(t, b.Stats().Waiting+other.Stats().Waiting)
		b.unlock(b.lock("k"))
	})
}

// The next in line asks the store when the lock was given back, not before.
func TestTheNextAsksAfterTheRelease(t *testing.T) {
	waiting(t, &lock.Options{LocalHandovers: 1}, func(t *testing.T, b *bench) {
		first := b.lock("k")
		second, third := b.pend(b.Mutex("k")), b.pend(b.Mutex("k"))
		synctest.Wait()
		require.NoError(t, first.Unlock(ctx))
		h := <-second
		asked := func() int { return b.calls(locktest.Wait) + b.calls(locktest.Acquire) }
		before := asked()
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Release {
				time.Sleep(time.Second)
			}
			return nil
		})
		go func() { assert.NoError(t, h.Unlock(ctx)) }()
		settle(500 * time.Millisecond)
		assert.Equal(t, before, asked())
		settle(time.Second)
		assert.Equal(t, before+1, asked())
		require.NoError(t, (<-third).Unlock(ctx))
	})
}
