package lock_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// placeStore hands a lock over for the rest of a place. A place lasts a tenth to all of the
// TTL.
type placeStore struct {
	*memstore.Store
	part    float64 // length of a place, as a fraction of the TTL
	used    float64 // largest fraction of a place that passes before the hand-over
	renewal func(ctx context.Context, l driver.Lease) error

	waits, acquires atomic.Int64
}

func (s *placeStore) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	s.waits.Add(1)
	l, err := s.Store.Wait(ctx, r, queued)
	place := time.Duration(s.part * float64(r.TTL))
	l.Sent = time.Now().Add(place - r.TTL - time.Duration(rand.Float64()*s.used*float64(place)))
	return l, err
}

func (s *placeStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	s.acquires.Add(1)
	return s.Store.Acquire(ctx, r)
}

func (s *placeStore) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if s.renewal != nil {
		if err := s.renewal(ctx, batch[0]); err != nil {
			return err
		}
	}
	return s.Store.Renew(ctx, batch, out)
}

// drawn returns random options that New accepts, with any margin up to the longest.
func drawn(t *testing.T, d *rand.Rand) *lock.Options {
	o := &lock.Options{Terms: lock.Terms{TTL: time.Duration(float64(time.Second) * pow(600, d.Float64())).Truncate(time.Millisecond)}}
	o.Renewal.Failures = []int{0, 1, -1}[d.IntN(3)]
	if d.IntN(2) == 0 {
		o.Renewal.Fraction = pow(1.0/100, d.Float64()) / 2
	}
	if d.IntN(3) == 0 {
		o.Renewal = seam.Tuned(o.Renewal, seam.Tuning{Align: -1})
	}
	accepts := func(margin time.Duration) bool {
		o.Renewal.Margin = margin
		c, err := lock.New(memstore.New(), o)
		if err == nil {
			require.NoError(t, c.Close(context.Background()))
		}
		return err == nil
	}
	least := time.Duration(0) // the default
	if !accepts(least) {
		o.Renewal.Fraction = 0
	}
	low, high := 25*time.Millisecond, o.TTL // valid with any engine
	for high-low > time.Millisecond {
		if middle := (low + high) / 2; accepts(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	switch d.IntN(3) {
	case 0: // the longest margin
	case 1:
		low -= time.Duration(d.Float64() * float64(low))
	default:
		low = least
	}
	if !accepts(low) {
		require.True(t, accepts(least))
	}
	return o
}

func pow(base, exponent float64) float64 { return math.Pow(base, exponent) }

// With every margin that New accepts, a lock that is handed over has the time that its terms
// need, and no waiter loses its place in the queue.
func TestAHandOverLastsAsLongAsTheOptionsNeed(t *testing.T) {
	asked, believed := 0, 0
	for seed := range uint64(80) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := rand.New(rand.NewPCG(seed, 1))
				o := drawn(t, d)
				s := &placeStore{Store: memstore.New(), part: 0.1 + 0.9*d.Float64()*d.Float64(), used: 0.5}
				var failed sync.Map // the first renewal of each lock gets no answer
				s.renewal = func(ctx context.Context, l driver.Lease) error {
					if _, again := failed.LoadOrStore(l.Token, true); again || o.Renewal.Failures == 1 {
						return nil
					}
					<-ctx.Done()
					return context.Cause(ctx)
				}
				what := fmt.Sprintf("TTL %v, %+v, place %.2f", o.TTL, o.Renewal, s.part)
				var order []int
				var clients sync.WaitGroup
				const n = 4
				first, err := lock.New(s.Store, nil)
				require.NoError(t, err)
				blocking, err := first.Mutex("k").Lock(ctx)
				require.NoError(t, err)
				for i := range n {
					c, err := lock.New(unclosed{s}, o)
					require.NoError(t, err)
					clients.Go(func() {
						h, err := c.Mutex("k").Lock(ctx)
						if assert.NoError(t, err, what) {
							order = append(order, i)
							time.Sleep(o.TTL)
							assert.NoError(t, h.Err(), what)
							assert.NoError(t, h.Unlock(ctx), what)
						}
						assert.NoError(t, c.Close(ctx))
					})
					synctest.Wait()
				}
				require.NoError(t, blocking.Unlock(ctx))
				clients.Wait()
				require.NoError(t, first.Close(ctx))
				assert.Equal(t, []int{0, 1, 2, 3}, order, "in the order of the queue: %s", what)
				assert.EqualValues(t, n, s.waits.Load(), what)
				asked += int(s.acquires.Load())
				believed += n - int(s.acquires.Load())
			})
		})
	}
	t.Logf("%d hand-overs were asked for again, %d were not", asked, believed)
	assert.Greater(t, asked, 50)
	assert.Greater(t, believed, 50)
}

// With the default options a waiter sends no second request after a hand-over.
func TestAHandOverOfTheDefaultIsEnough(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		s := &placeStore{Store: b.mem, part: 1.0 / 3, used: 0.5}
		b.store.Over(s)
		for range 100 {
			require.NoError(t, b.lock("k").Unlock(ctx))
		}
		assert.Zero(t, s.acquires.Load())
	})
}

// The second request after a hand-over may fail once. If it fails twice, or another owner has
// the lock, the client releases what the store may have granted.
func TestAHandOverThatIsAskedForAgain(t *testing.T) {
	o := &lock.Options{Renewal: renewal.Policy{Margin: 4 * time.Second}}
	short := func(b *bench) { b.store.Over(&placeStore{Store: b.mem, part: 0.1, used: 0}) }
	t.Run("and fails once", func(t *testing.T) {
		waiting(t, o, func(t *testing.T, b *bench) {
			short(b)
			b.loseAnswers(once(locktest.Acquire, errIO))
			h := b.lock("k")
			assert.Equal(t, 1, b.calls(locktest.Wait))
			assert.Equal(t, 2, b.calls(locktest.Acquire))
			assert.Greater(t, time.Until(h.Deadline()), 25*time.Second)
			require.NoError(t, h.Unlock(ctx))
			assert.Zero(t, b.mem.Len())
		})
	})
	t.Run("and fails twice", func(t *testing.T) {
		waiting(t, o, func(t *testing.T, b *bench) {
			short(b)
			b.loseAnswers(always(locktest.Acquire, errIO))
			_, err := b.Mutex("k").Lock(ctx)
			require.ErrorIs(t, err, errIO)
			assert.Equal(t, 2, b.calls(locktest.Acquire))
			synctest.Wait()
			assert.Zero(t, b.mem.Len())
			assert.Zero(t, b.Stats().Releasing)
		})
	})
	t.Run("and is cancelled", func(t *testing.T) {
		waiting(t, o, func(t *testing.T, b *bench) {
			short(b)
			b.loseAnswers(hang(locktest.Acquire))
			limited, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := b.Mutex("k").Lock(limited)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			synctest.Wait()
			assert.Zero(t, b.mem.Len())
		})
	})
	t.Run("when another has it", func(t *testing.T) {
		waiting(t, o, func(t *testing.T, b *bench) {
			short(b)
			other, err := lock.New(b.mem, nil)
			require.NoError(t, err)
			var held *lock.Held
			b.loseRequests(func(_ context.Context, op locktest.Op) error {
				if op == locktest.Acquire && held == nil {
					assert.NoError(t, b.mem.ForceRelease(ctx, "k"))
					held, err = other.Mutex("k").TryLock(ctx)
					assert.NoError(t, err)
					time.AfterFunc(time.Minute, func() { assert.NoError(t, held.Unlock(ctx)) })
				}
				return nil
			})
			began := time.Now()
			h := b.lock("k")
			assert.GreaterOrEqual(t, time.Since(began), time.Minute, "it waits again")
			assert.Equal(t, 2, b.calls(locktest.Wait))
			require.NoError(t, h.Unlock(ctx))
			require.NoError(t, other.Close(ctx))
			synctest.Wait()
			assert.Zero(t, b.mem.Len())
		})
	})
}
