package lock

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stuck is a store that releases nothing before it is told to, whatever the ctx.
type stuck struct {
	yes
	released chan struct{}
}

func (s *stuck) Release(context.Context, Lease) error {
	<-s.released
	return nil
}

func TestTheCleanerTakesSoManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{released: make(chan struct{})}
		var c cleaner
		c.init(s, slog.New(slog.DiscardHandler))
		add := func(i int) (why string) {
			return c.adopt(Lease{Request: Request{Key: fmt.Sprint(i), TTL: time.Hour}})
		}
		for i := range maxOrphans {
			require.Empty(t, add(i))
		}
		assert.Equal(t, "too many are waiting", add(maxOrphans))
		assert.Equal(t, maxOrphans, c.len())
		close(s.released)
		synctest.Wait()
		assert.Zero(t, c.len())
		require.Empty(t, add(0), "there is room again")
		synctest.Wait()
		left, err := c.close(t.Context())
		require.NoError(t, err)
		assert.Empty(t, left)
		assert.Equal(t, "the client is closed", add(0))
	})
}

func TestTheCleanerTellsThatAReleaseIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{released: make(chan struct{})}
		var c cleaner
		c.init(s, slog.New(slog.DiscardHandler))
		c.add(Lease{Request: Request{Key: "k", TTL: time.Hour}})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left, err := c.close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "a release is still under way")
		require.Len(t, left, 1)
		assert.Equal(t, "k", left[0].Key)
		close(s.released)
	})
}

// broken is a store that releases nothing.
type broken struct{ yes }

func (*broken) Release(context.Context, Lease) error { return io.EOF }

// What Close could not release before its ctx ended is not released.
func TestAReleaseWhoseTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), cleanPause/2)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, (&releasing{store: &broken{}}).release(ctx, Lease{}), io.EOF)
		assert.Equal(t, cleanPause/2, time.Since(start))
	})
}
