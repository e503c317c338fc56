package lock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched is a context that lasts, and counts who wants to be told of its end.
type watched struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int64
}

func newWatched() *watched { return &watched{Context: context.Background(), done: make(chan struct{})} }

func (w *watched) Done() <-chan struct{} { return w.done }

// AfterFunc is what package context asks of a context that is not its own.
func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.waiting.Add(1)
	return func() bool {
		w.waiting.Add(-1)
		return true
	}
}

// Contexts of clients and of users last much longer than one call.
func TestACallLeavesNothingAtTheContextsItEndsWith(t *testing.T) {
	client, user := newWatched(), newWatched()
	ctx, stop := (&core{ctx: client}).whileOpen(user)
	require.NoError(t, ctx.Err())
	assert.EqualValues(t, 1, client.waiting.Load())
	assert.EqualValues(t, 1, user.waiting.Load())
	stop()
	assert.Zero(t, client.waiting.Load())
	assert.Zero(t, user.waiting.Load())
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}

// The members' context ends with the last answer, and not before: those who are slow
// go on when the others have decided.
func TestQuorumAsksUntilTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := newWatched()
		q := newYes(t)
		q.ctx = open
		asked := make([]context.Context, len(q.members))
		answers, err := ask(t.Context(), q, time.Hour, q.all(), func(ctx context.Context, i int) (int, error) {
			asked[i] = ctx
			time.Sleep(time.Duration(i) * time.Second)
			return 10 * i, ctx.Err()
		})
		require.NoError(t, err)
		for i := range q.members {
			a := <-answers
			assert.Equal(t, answer[int]{at: i, value: 10 * i}, a)
			synctest.Wait()
			last := i == len(q.members)-1
			assert.Equal(t, last, asked[i].Err() != nil, "after answer %d", i)
			assert.Equal(t, last, open.waiting.Load() == 0)
		}
	})
}

// lasting is a lock that is held and counts who wants to be told of its end.
type lasting struct {
	hold
	waiting int
}

func (*lasting) err() error                                         { return nil }
func (*lasting) carry(ctx context.Context, _ *Held) context.Context { return ctx }
func (l *lasting) afterFunc(func()) (stop func() bool) {
	l.waiting++
	return func() bool {
		l.waiting--
		return true
	}
}

func TestAContextLeavesNothingAtItsLock(t *testing.T) {
	l := new(lasting)
	ctx, cancel := (&Held{hold: l}).Context(t.Context())
	require.NoError(t, ctx.Err())
	assert.Equal(t, 1, l.waiting)
	cancel()
	assert.Zero(t, l.waiting)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}
