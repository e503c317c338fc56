package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestALeaderProclaimsAnotherName(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		e := b.Election("e", "starting")
		leadership, err := e.Campaign(ctx)
		require.NoError(t, err)
		observing, cancel := context.WithCancel(ctx)
		var seen []string
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for leader, err := range e.Observe(observing) {
				assert.NoError(t, err)
				seen = append(seen, leader.Name)
			}
		}()
		settle(ttl)
		require.NoError(t, e.Proclaim(ctx, leadership, "ready at host-1:80"))
		settle(ttl)
		require.NoError(t, leadership.Err(), "it is renewed as before")
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		assert.Equal(t, leadership.Token(), leader.Term, "the term is the same")
		cancel()
		<-observed
		assert.Equal(t, []string{"starting", "ready at host-1:80"}, seen)

		next, err := lockSoon(leadership, b.Election("e", "b"))
		require.NoError(t, err)
		assert.Equal(t, "b", b.leads(), "the next leader has its own name")
		require.ErrorIs(t, e.Proclaim(ctx, leadership, "again"), lock.ErrNotHeld)
		assert.Equal(t, "b", b.leads())
		require.NoError(t, next.Unlock(ctx))
	})
}

// lockSoon unlocks a handle while l waits, and returns the handle of l.
func lockSoon(h *lock.Held, l lock.Locker) (*lock.Held, error) {
	time.AfterFunc(time.Second, func() { _ = h.Unlock(ctx) })
	return l.Lock(ctx)
}

func TestProclaimRefuses(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		var none context.Context
		e := b.Election("e", "a")
		leadership, err := e.Campaign(ctx)
		require.NoError(t, err)
		other, err := b.Election("other", "a").Campaign(ctx)
		require.NoError(t, err)
		read, err := b.RWMutex("rw").RLock(ctx)
		require.NoError(t, err)
		entered, err := func() (*lock.Held, error) {
			inside, stop := leadership.Context(ctx)
			defer stop()
			return b.Reentrant("e").Lock(inside)
		}()
		require.NoError(t, err)
		for want, err := range map[string]error{
			"not made by a Client":    (*lock.Election)(nil).Proclaim(ctx, leadership, "b"),
			"the context is nil":      e.Proclaim(none, leadership, "b"),
			"the name of a candidate": e.Proclaim(ctx, leadership, ""),
			"1 to 1024 bytes":         e.Proclaim(ctx, leadership, strings.Repeat("n", lock.MaxMetadataLen+1)),
			`proclaim "e": not held`:  e.Proclaim(ctx, nil, "b"),
			"not that of a leader":    e.Proclaim(ctx, other, "b"),
			"of this election":        b.Election("rw", "a").Proclaim(ctx, read, "b"),
			"and client":              e.Proclaim(ctx, entered, "b"),
		} {
			require.ErrorContains(t, err, want)
		}
		assert.Zero(t, b.calls(locktest.SetMetadata))

		b.loseRequests(always(locktest.SetMetadata, errIO))
		require.ErrorIs(t, e.Proclaim(ctx, leadership, "b"), errIO)
		b.loseRequests(hang(locktest.SetMetadata))
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, e.Proclaim(limited, leadership, "b"), context.DeadlineExceeded)
		b.heal()
		b.mem.Delete("e")
		require.ErrorIs(t, e.Proclaim(ctx, leadership, "b"), lock.ErrNotHeld)
		<-leadership.Done()
		require.ErrorIs(t, e.Proclaim(ctx, leadership, "b"), lock.ErrLost)
	})
}

func TestCandidatesAreListedInOrder(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		names := func() []string {
			t.Helper()
			names, err := b.Election("e", "").Candidates(ctx)
			require.NoError(t, err)
			return names
		}
		assert.Empty(t, names())
		leadership, err := b.Election("e", "a").Campaign(ctx)
		require.NoError(t, err)
		assert.Empty(t, names(), "the leader is no candidate")

		var clients []*lock.Client
		next := make(chan *lock.Held, 3)
		for _, name := range []string{"b", "c", "d"} {
			client, err := lock.New(unclosed{b.mem}, nil)
			require.NoError(t, err)
			clients = append(clients, client)
			go func() {
				h, err := client.Election("e", name).Campaign(ctx)
				assert.NoError(t, err)
				next <- h
			}()
			synctest.Wait()
		}
		assert.Equal(t, []string{"b", "c", "d"}, names())
		require.NoError(t, leadership.Unlock(ctx))
		second := <-next
		assert.Equal(t, "b", b.leads())
		assert.Equal(t, []string{"c", "d"}, names())
		require.NoError(t, second.Unlock(ctx))
		require.NoError(t, (<-next).Unlock(ctx))
		require.NoError(t, (<-next).Unlock(ctx))
		for _, c := range clients {
			require.NoError(t, c.Close(ctx))
		}

		_, err = (*lock.Election)(nil).Candidates(ctx)
		require.ErrorContains(t, err, "not made by a Client")
		b.loseRequests(always(locktest.Inspect, errIO))
		_, err = b.Election("e", "").Candidates(ctx)
		require.ErrorIs(t, err, errIO)
	})
}
