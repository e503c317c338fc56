package lock

import (
	"container/list"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// The ctx of a queued call ends, and before the call leaves the queue it is allowed to ask or
// is failed. This moment is too short for a test from outside.

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// behind adds a call to the queue of r.
func behind(l *localQueues, r driver.Request) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	return l.queues[queueKeyOf(r)].waiters.PushBack(&turn{call: new(localCall), request: r, ended: make(chan error, 1)})
}

// lineFor returns queues with one active call for r and one behind it.
func lineFor(t *testing.T, r driver.Request) (l *localQueues, active *localCall, place *list.Element) {
	t.Helper()
	l, active = new(localQueues), new(localCall)
	l.init(10)
	require.NoError(t, l.enter(t.Context(), r, active, nil))
	return l, active, behind(l, r)
}

func TestACallThatLeavesItsLineTooLate(t *testing.T) {
	r := driver.Request{Key: "k"}
	t.Run("its turn has come", func(t *testing.T) {
		l, active, place := lineFor(t, r)
		l.leave(r, active, false, false, nil)
		require.ErrorIs(t, l.cancel(ended, queueKeyOf(r), place), ErrUnavailable, "the store has answered nobody")
		assert.Zero(t, l.len())
		assert.Empty(t, l.queues, "the line is given back")
	})
	t.Run("it was told that the call before it failed", func(t *testing.T) {
		l, active, place := lineFor(t, r)
		l.leave(r, active, false, false, io.EOF)
		assert.Empty(t, l.queues, "the line is given back")
		require.ErrorIs(t, l.cancel(ended, queueKeyOf(r), place), io.EOF)
		assert.Zero(t, l.len())
	})
}

// The queue of a key is used again for the next key, without what was counted in it.
func TestAnUnusedQueueServesTheNextKey(t *testing.T) {
	l := new(localQueues)
	l.init(10)
	read := driver.Request{Key: "k", Mode: driver.Read}
	reader, writer := new(localCall), new(localCall)
	require.NoError(t, l.enter(t.Context(), read, reader, nil))
	of := l.queues[queueKeyOf(read)]
	l.setTaken(read, true)
	l.leave(read, reader, true, false, nil)
	require.Empty(t, l.queues)
	other := driver.Request{Key: "other"}
	require.NoError(t, l.enter(t.Context(), other, writer, nil))
	assert.Same(t, of, l.queues[queueKeyOf(other)])
	assert.Equal(t, keyQueue{active: []*localCall{writer}}, *of)
	require.NoError(t, l.enter(t.Context(), read, reader, nil))
	assert.NotSame(t, of, l.queues[queueKeyOf(read)])
}
