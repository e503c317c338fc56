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

// A turn that is given to a call at the moment at which that is cancelled goes to
// the next.
func TestATurnIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		l.init(10)
		k := Request{Key: "k"}
		var had, cancelled int
		for i := range 200 {
			require.NoError(t, l.enter(t.Context(), k))
			ctx, cancel := context.WithCancel(t.Context())
			second, third := make(chan error), make(chan error)
			go func() { second <- l.enter(ctx, k) }()
			synctest.Wait()
			go func() { third <- l.enter(t.Context(), k) }()
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
			if l.enter(ctx, r) != nil {
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
