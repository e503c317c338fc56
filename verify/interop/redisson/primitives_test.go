package redisson

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func permits(p *pair) {
	s := p.stores["lock"].Semaphore("permits")
	set, err := s.TrySetPermits(p.Context(), 2)
	require.NoError(p, err)
	require.True(p, set)
	assert.Equal(p, "false", p.java.do("a", "permits", "permits", "5"))
	mine, err := s.TryAcquire(p.Context(), 1, lease)
	require.NoError(p, err)
	theirs := p.java.do("a", "acquire", "permits", millis(lease))
	assert.Equal(p, "null", p.java.do("a", "tryacquire", "permits"))
	_, err = s.TryAcquire(p.Context(), 1, lease)
	require.ErrorIs(p, err, driver.ErrNotAcquired)
	waiting := p.java.start("b", "acquire", "permits", millis(lease))
	p.awaitWaiter("permits")
	require.NoError(p, s.Release(p.Context(), mine...))
	second := p.java.woken(waiting)
	got := make(chan error, 1)
	go func() {
		_, err := s.Acquire(p.Context(), 1, lease)
		got <- err
	}()
	p.awaitWaiter("permits")
	p.java.do("a", "release", "permits", theirs)
	p.soon(got)
	require.NoError(p, s.Release(p.Context(), second), "either side releases by the id")
	assert.Equal(p, "1", p.java.do("a", "available", "permits"))
}

// soon expects that a message wakes a waiter of Go.
func (p *pair) soon(done chan error) {
	p.Helper()
	select {
	case err := <-done:
		require.NoError(p, err)
	case <-time.After(woken):
		require.Fail(p, "the message has not woken the waiter")
	}
}

// permitsExpire lets each side wait until a permit of the other ends.
func permitsExpire(p *pair) {
	s := p.stores["lock"].Semaphore("expiring")
	set, err := s.TrySetPermits(p.Context(), 1)
	require.NoError(p, err)
	require.True(p, set)
	theirs := p.java.do("a", "acquire", "expiring", "1000")
	mine, err := s.Acquire(p.Context(), 1, time.Second)
	require.NoError(p, err)
	a := <-p.java.start("a", "release", "expiring", theirs)
	assert.Equal(p, "error", a.kind, "the permit of the peer has ended: %s", a.text)
	next := p.java.do("a", "acquire", "expiring", millis(lease))
	require.ErrorIs(p, s.Release(p.Context(), mine...), driver.ErrNotHeld)
	_, err = s.TryAcquire(p.Context(), 1, lease)
	require.ErrorIs(p, err, driver.ErrNotAcquired)
	p.java.do("a", "release", "expiring", next)
	assert.Equal(p, "1", p.java.do("a", "available", "expiring"))
}

func latch(p *pair) {
	l := p.stores["lock"].Latch("latch")
	set, err := l.TrySetCount(p.Context(), 2)
	require.NoError(p, err)
	require.True(p, set)
	assert.Equal(p, "2", p.java.do("a", "count", "latch"))
	open, got := p.awaitLatch("latch")
	require.NoError(p, l.CountDown(p.Context()))
	p.java.pending(open)
	assert.Empty(p, got)
	p.java.do("b", "countdown", "latch")
	p.soon(got)
	assert.Equal(p, "open", p.java.woken(open))

	assert.Equal(p, "true", p.java.do("b", "setcount", "latch 2", "1"))
	l = p.stores["lock"].Latch("latch 2")
	open, got = p.awaitLatch("latch 2")
	require.NoError(p, l.CountDown(p.Context()))
	p.soon(got)
	p.java.woken(open)
}

// awaitLatch lets each side wait for a latch.
func (p *pair) awaitLatch(key string) (open chan answer, got chan error) {
	p.Helper()
	open, got = p.java.start("a", "await", key), make(chan error, 1)
	p.awaitWaiter(key)
	l := p.stores["lock"].Latch(key)
	go func() { got <- l.Await(p.Context()) }()
	p.awaitWaiter(key)
	return open, got
}
