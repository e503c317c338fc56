package lock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// enter is for calls to whom nobody passes a lock on.
func enter(ctx context.Context, l *lines, r Request) error {
	_, err := l.enter(ctx, nil, r)
	return err
}

// A turn that is given to a call at the moment at which that is cancelled goes to
// the next.
func TestATurnIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		l.init(10)
		k := Request{Key: "k"}
		var had, cancelled int
		for i := range 200 {
			require.NoError(t, enter(t.Context(), &l, k))
			ctx, cancel := context.WithCancel(t.Context())
			second, third := make(chan error), make(chan error)
			go func() { second <- enter(ctx, &l, k) }()
			synctest.Wait()
			go func() { third <- enter(t.Context(), &l, k) }()
			synctest.Wait()
			assert.Equal(t, 3, l.len())
			if i%2 == 0 {
				l.leave(k)
				cancel()
			} else { // it may notice only after it was given its turn
				l.mu.Lock()
				cancel()
				l.n--
				l.of[lineOf(k)].asking--
				l.next(lineOf(k))
				l.mu.Unlock()
			}
			if err := <-second; err == nil {
				had++
				l.leave(k)
			} else {
				cancelled++
				require.ErrorIs(t, err, context.Canceled)
			}
			require.NoError(t, <-third)
			l.leave(k)
			require.Zero(t, l.len())
			require.Empty(t, l.of)
		}
		t.Logf("%d had their turn, %d were cancelled", had, cancelled)
	})
}

// A lock that is passed on to a call at the moment at which that is cancelled is the
// call's.
func TestALockThatIsPassedOnIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		l.init(10)
		r, id := Request{Key: "k"}, lineKey{key: "k"}
		require.NoError(t, enter(t.Context(), &l, r))
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			passed, got := new(Held), make(chan given)
			go func() {
				held, err := l.enter(ctx, nil, r)
				got <- given{err, held}
			}()
			synctest.Wait()
			l.mu.Lock()
			cancel()
			l.n--
			behind := &l.of[id].behind
			behind.Remove(behind.Front()).(*turn).given <- given{held: passed}
			l.mu.Unlock()
			g := <-got
			require.NoError(t, g.err)
			require.Same(t, passed, g.held)
			require.Equal(t, 1, l.len())
		}
		l.leave(r)
		require.Empty(t, l.of)
	})
}

// Whoever asks, gives up or fails: a writer asks alone, no more ask together than may,
// and nobody is forgotten.
func TestWhoAsksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		l.init(1000)
		var mu sync.Mutex // guards both
		asking, most := map[Mode]int{}, map[Mode]int{}
		call := func(r Request) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(100)+1)*time.Millisecond)
			defer cancel()
			if enter(ctx, &l, r) != nil {
				return
			}
			mu.Lock()
			asking[r.Mode]++
			most[r.Mode] = max(most[r.Mode], asking[r.Mode])
			assert.False(t, asking[Write] > 0 && asking[Write]+asking[Read] > 1, "a writer asks alone")
			mu.Unlock()
			time.Sleep(time.Duration(rand.N(5)) * time.Millisecond)
			mu.Lock()
			asking[r.Mode]--
			mu.Unlock()
			if rand.N(20) == 0 {
				l.fail(r, context.Canceled)
				return
			}
			l.leave(r)
		}
		permits, batch := &Extra{Limit: 5}, &Extra{Members: []string{"m"}}
		var wg sync.WaitGroup
		for i := range 3000 {
			r := Request{Key: "k", Mode: Mode(i % 5)}
			switch r.Mode {
			case Write:
				if i%4 > 0 {
					r.Mode = Read
				}
			case Permit:
				r.Extra = permits
			case Members:
				r.Extra = batch
			}
			wg.Go(func() { call(r) })
			if i%100 == 0 {
				time.Sleep(time.Duration(rand.N(20)) * time.Millisecond)
			}
		}
		wg.Wait()
		require.Zero(t, l.len())
		require.Empty(t, l.of)
		assert.Equal(t, 1, most[Exclusive])
		assert.Equal(t, 1, most[Write])
		assert.LessOrEqual(t, most[Permit], 5)
		assert.LessOrEqual(t, most[Read], together)
		for _, mode := range []Mode{Read, Permit, Members} {
			assert.Greater(t, most[mode], 1, mode)
		}
	})
}
