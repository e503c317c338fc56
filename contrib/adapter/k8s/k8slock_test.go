package k8slock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	k8slock "github.com/leasewheel/leasewheel/contrib/adapter/k8s"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

var errDown = errors.New("the store is down")

// process is a candidate's connection to the store, which can be cut.
type process struct {
	*locktest.Faulty
	cut atomic.Bool // requests are lost
}

func newProcess(store *memstore.Store) *process {
	p := &process{}
	p.Faulty = (&locktest.Faulty{Before: func(context.Context, locktest.Op) error {
		if p.cut.Load() {
			return errDown
		}
		return nil
	}}).Over(adaptertest.Process{Store: store})
	return p
}

// TestOneLeaderAtATime plays 500 events: a leader that stops, one that is cut off, and one whose
// lease is taken away.
func TestOneLeaderAtATime(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				store := memstore.New()
				f := newField(t)
				var processes [3]*process
				var candidates [3]*candidate
				start := func(i int) {
					processes[i] = newProcess(store)
					candidates[i] = f.candidate(adaptertest.NewClient(t, processes[i]), fmt.Sprint("candidate ", i), nil, true)
				}
				for i := range candidates {
					start(i)
				}
				for range 125 {
					time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
					i := random.IntN(3)
					switch event := random.IntN(3); {
					case event == 0:
						candidates[i].stop()
						<-candidates[i].ended
					case event == 1:
						processes[i].cut.Store(true)
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
						processes[i].cut.Store(false)
					case f.leader() != candidates[i].lock.Identity():
					default:
						// The loss is noticed at the next renewal. Others could lead before.
						for j, p := range processes {
							p.cut.Store(j != i)
						}
						store.Delete(f.key)
						time.Sleep(retryPeriod + time.Millisecond)
						for _, p := range processes {
							p.cut.Store(false)
						}
					}
					synctest.Wait()
					select {
					case <-candidates[i].ended:
						start(i)
					default:
					}
				}
				time.Sleep(time.Minute)
				assert.NotEmpty(t, f.leader())
				assert.Greater(t, len(f.seen()), 20)
			})
		})
	}
}

// TestCrash cuts the leader off. It stops, with and without Context, before the next one leads.
func TestCrash(t *testing.T) {
	for _, watch := range []bool{false, true} {
		t.Run(fmt.Sprint("watch ", watch), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				f := newField(t)
				p := newProcess(store)
				a := f.candidate(adaptertest.NewClient(t, p), "a", nil, watch)
				time.Sleep(time.Second)
				require.Equal(t, "a", f.leader())
				f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "b", nil, watch)
				time.Sleep(time.Hour)
				require.Equal(t, "a", f.leader())

				cut := time.Now()
				p.cut.Store(true)
				<-a.ended
				assert.LessOrEqual(t, time.Since(cut), renewDeadline+retryPeriod)
				time.Sleep(time.Minute)
				terms := f.seen()
				require.Len(t, terms, 2)
				assert.Equal(t, "b", terms[1].name)
				assert.LessOrEqual(t, terms[1].start.Sub(cut), leaseDuration+retryAtMost)
			})
		})
	}
}

func TestALostLeadershipEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		f := newField(t)
		a := f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a", nil, true)
		time.Sleep(time.Minute)
		require.Equal(t, "a", f.leader())
		store.Delete(f.key)
		lost := time.Now()
		<-a.ended
		assert.LessOrEqual(t, time.Since(lost), retryPeriod)
		assert.ErrorIs(t, context.Cause(a.ctx), lock.ErrLost)
		assert.ErrorIs(t, a.lock.Held().Err(), lock.ErrLost)

		synctest.Wait() // the work of the first term ends
		f.run(a.lock, nil, true)
		time.Sleep(time.Minute)
		assert.Equal(t, "a", f.leader(), "a second Run leads in a new term")
		assert.Len(t, f.seen(), 2)
	})
}

// TestALostLeadershipIsNotResumed has no Context, so that the elector tries on until its
// RenewDeadline.
func TestALostLeadershipIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		f := newField(t)
		a := f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a", nil, false)
		time.Sleep(time.Minute)
		require.Equal(t, "a", f.leader())
		store.Delete(f.key)
		lost := time.Now()
		<-a.ended
		assert.LessOrEqual(t, time.Since(lost), renewDeadline+retryPeriod)
		assert.Zero(t, store.Len(), "the elector did not lock again")
	})
}

func TestReleaseOnCancel(t *testing.T) {
	for _, release := range []bool{false, true} {
		t.Run(fmt.Sprint(release), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				f := newField(t)
				change := func(c *leaderelection.LeaderElectionConfig) { c.ReleaseOnCancel = release }
				a := f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a", change, true)
				time.Sleep(time.Second)
				f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "b", change, true)
				time.Sleep(time.Hour)
				require.Equal(t, "a", f.leader())
				a.stop()
				<-a.ended
				stopped := time.Now()
				time.Sleep(time.Minute)
				require.Equal(t, "b", f.leader())
				if took := f.seen()[1].start.Sub(stopped); release {
					assert.LessOrEqual(t, took, retryAtMost)
				} else {
					assert.Greater(t, took, leaseDuration-retryPeriod, "the work of the first leader may not have ended")
					assert.LessOrEqual(t, took, leaseDuration+retryAtMost)
				}
			})
		})
	}
}

// TestALeaderThatCannotRenewIsNotReleased restores the connection when the elector has given up.
func TestALeaderThatCannotRenewIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		f := newField(t)
		p := newProcess(store)
		p.After = func(_ context.Context, op locktest.Op) error {
			if op == locktest.Renew && p.cut.Load() {
				return errDown
			}
			return nil
		}
		p.Before = nil
		a := f.candidate(adaptertest.NewClient(t, p), "a", nil, true)
		time.Sleep(time.Minute)
		p.cut.Store(true)
		<-a.ended
		assert.Equal(t, 1, store.Len())
		time.Sleep(leaseDuration)
		assert.Zero(t, store.Len())
	})
}

// TestTheSameIdentityTwice has two processes that were given one name by mistake.
func TestTheSameIdentityTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		f := newField(t)
		f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a", nil, true)
		time.Sleep(time.Second)
		var leaders atomic.Pointer[string]
		b := f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a", func(c *leaderelection.LeaderElectionConfig) {
			c.Callbacks.OnNewLeader = func(name string) { leaders.Store(&name) }
		}, true)
		time.Sleep(time.Hour)
		assert.Len(t, f.seen(), 1)
		assert.False(t, b.elector.IsLeader())
		assert.Contains(t, *leaders.Load(), "a in term ")
	})
}

func TestObserversSeeTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		f := newField(t)
		a := f.candidate(adaptertest.NewClient(t, adaptertest.Process{Store: store}), "a", nil, true)
		time.Sleep(time.Second)
		p := newProcess(store)
		var tries atomic.Int64
		p.Before = func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				tries.Add(1)
			}
			return nil
		}
		b := f.candidate(adaptertest.NewClient(t, p), "b", nil, true)
		time.Sleep(time.Hour)
		assert.Equal(t, "a", b.elector.GetLeader())
		assert.True(t, a.elector.IsLeader())
		assert.False(t, b.elector.IsLeader())
		assert.Zero(t, tries.Load(), "a candidate asks only, while there is a leader")
	})
}

// leads returns a Lock that has the leadership, without an elector.
func leads(t *testing.T, client *lock.Client) *k8slock.Lock {
	l := k8slock.New(client, "controller", "a")
	_, _, err := l.Get(t.Context())
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.NoError(t, l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}))
	require.True(t, l.Held().Valid())
	return l
}

// TestABlockedElector renews no more. Its lease ends, and so does the context.
func TestABlockedElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leads(t, adaptertest.NewClient(t, memstore.New()))
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		start := time.Now()
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
		assert.Less(t, time.Since(start), leaseDuration)
		_, _, err := l.Get(t.Context())
		assert.ErrorIs(t, err, lock.ErrLost)
		assert.False(t, apierrors.IsNotFound(err))
		err = l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15})
		assert.ErrorIs(t, err, lock.ErrLost)
	})
}

func TestCloseOfTheClientEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := adaptertest.NewClient(t, memstore.New())
		l := leads(t, client)
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		other, cancelOther := l.Context(t.Context())
		cancelOther()
		require.NoError(t, client.Close(t.Context()))
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), lock.ErrClosed)
		assert.ErrorIs(t, context.Cause(other), context.Canceled)
	})
}

func TestAResignationEndsNoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := leads(t, adaptertest.NewClient(t, store))
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		require.NoError(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}))
		assert.Zero(t, store.Len())
		time.Sleep(time.Minute)
		assert.NoError(t, ctx.Err())
	})
}

func TestATooShortLeaseDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := k8slock.New(adaptertest.NewClient(t, memstore.New()), "controller", "a")
		assert.ErrorContains(t, l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}), "LeaseDuration is below a second")
	})
}

// TestTheTermsOfTheClient has terms that an election refuses, or that would end it.
func TestTheTermsOfTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		f := newField(t)
		client := adaptertest.NewClient(t, adaptertest.Process{Store: store}).With(lock.Terms{MinHold: time.Hour, MaxHold: time.Minute, TTL: 5 * time.Minute})
		f.candidate(client, "a", nil, true)
		time.Sleep(time.Hour)
		assert.Equal(t, "a", f.leader())
		assert.LessOrEqual(t, store.ExpiresIn(f.key), leaseDuration)
	})
}
