package lock

import (
	"context"
	"testing"
	"testing/synctest"

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
