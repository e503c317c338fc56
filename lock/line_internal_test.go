package lock

import (
	"container/list"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Moments that are too short to be met from outside: a call leaves its line when its
// ctx ends, and meanwhile its turn has come, or more.

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// behind puts a call into the line of those that ask for r.
func behind(ctx context.Context, l *lines, c *Client, r Request) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return l.of[lineOf(r)].behind.PushBack(&turn{client: c, request: r, ctx: ctx, given: make(chan given, 1)})
}

// lineFor returns lines with a call that asks for r and one behind it.
func lineFor(t *testing.T, r Request) (*lines, *list.Element) {
	t.Helper()
	l := new(lines)
	l.init(10)
	held, err := l.enter(t.Context(), nil, r)
	require.NoError(t, err)
	require.Nil(t, held)
	return l, behind(ended, l, nil, r)
}

func TestACallThatLeavesItsLineTooLate(t *testing.T) {
	r := Request{Key: "k"}
	t.Run("its turn has come", func(t *testing.T) {
		l, place := lineFor(t, r)
		l.leave(r)
		_, err := l.quit(ended, lineOf(r), place)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, l.len())
		assert.Empty(t, l.of, "the line is given back")
	})
	t.Run("it was told that the call before it failed", func(t *testing.T) {
		l, place := lineFor(t, r)
		l.fail(r, io.EOF)
		assert.Empty(t, l.of, "the line is given back")
		_, err := l.quit(ended, lineOf(r), place)
		require.ErrorIs(t, err, io.EOF)
		assert.Zero(t, l.len())
	})
	t.Run("it was passed the lock", func(t *testing.T) {
		l, place := lineFor(t, r)
		want := new(Held)
		place.Value.(*turn).given <- given{held: want}
		held, err := l.quit(ended, lineOf(r), place)
		require.NoError(t, err)
		assert.Same(t, want, held)
	})
}

// Who has given up stands in nobody's way.
func TestTheHeirIsOneWhoWaits(t *testing.T) {
	r := Request{Key: "k"}
	l, _ := lineFor(t, r)
	c := new(Client)
	want := behind(t.Context(), l, c, r)
	assert.Same(t, want, l.heir(&seat{client: c, request: r}))
}

// brief is a context that ends when it has been looked at once.
type brief struct {
	context.Context
	looked bool
}

func (b *brief) Err() error {
	if b.looked {
		return context.Canceled
	}
	b.looked = true
	return nil
}

// The lock was to be passed on, and the only one who waited has gone.
func TestNobodyIsLeftToPassTheLockTo(t *testing.T) {
	c, err := New(&yes{}, &Options{LocalHandovers: 1})
	require.NoError(t, err)
	h, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	r := h.hold.(*holding).seat.request
	place := behind(&brief{Context: t.Context()}, &c.lines, c, r)
	require.NoError(t, h.Unlock(t.Context()))
	assert.Zero(t, c.Stats().Renewal.Held, "it is released")
	require.ErrorIs(t, h.Err(), ErrNotHeld)
	_, err = c.lines.quit(ended, lineOf(r), place)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, c.Stats().Waiting)
	require.NoError(t, c.Close(t.Context()))
}
