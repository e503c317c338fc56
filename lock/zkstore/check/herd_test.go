package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Waiters get a lock one after another. Each of them reads the queue when it is woken, so a release
// that woke all of them would cause 55 reads. A waiter that asks again because 10 s have passed adds
// one.
func TestAReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	const waiters = 10
	p := newTap(t, testzk.Shared(t))
	s := openAt(t, 4*time.Minute, p.listener.Addr().String())
	request := func(owner string) driver.Request {
		return driver.Request{Key: t.Name(), Owner: owner, TTL: time.Minute}
	}
	l, err := s.Acquire(t.Context(), request("holder:1"))
	require.NoError(t, err)
	got := make(chan driver.Lease)
	for i := range waiters {
		go func() {
			l, err := s.Wait(t.Context(), request(fmt.Sprint("waiter:", i)), func() {})
			assert.NoError(t, err)
			got <- l
		}()
	}
	require.Eventually(t, func() bool { return p.watches.Load() >= waiters }, time.Minute, time.Millisecond, "all watch")
	before := p.children.Load()
	for range waiters {
		require.NoError(t, s.Release(t.Context(), l))
		l = <-got
	}
	assert.Less(t, p.children.Load()-before, int32(3*waiters))
}
