package zkstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// On a busy machine the creation of a node may be sent only after the release of its owner, which has
// given up.
func TestACreationIsSentLate(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), []string{testzk.Shared(t).Address}, &Options{SessionTimeout: 30 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	r := driver.Request{Key: t.Name(), Owner: "a:1", TTL: 15 * time.Second}
	k, begin := leaseKey{r.Key, r.Owner}, time.Now()
	release := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return s.Release(ctx, driver.Lease{Request: r, Unanswered: true})
	}
	c := s.first()
	require.True(t, c.willCreate(k, 10, begin.Add(r.TTL)))
	require.ErrorIs(t, release(), context.DeadlineExceeded, "the creation may still be sent")
	_, err = c.create(t.Context(), r, begin)
	require.NoError(t, err)
	s.created(k, true)
	assert.Eventually(t, func() bool {
		all, _, err := c.nodes(t.Context(), r.Key)
		return err == nil && len(all) == 0
	}, r.TTL/2, time.Millisecond, "the node is removed long before its lease ends")
	require.Eventually(t, func() bool { return errors.Is(release(), driver.ErrNotHeld) }, time.Minute, time.Millisecond)
	require.True(t, c.willCreate(k, 10, begin.Add(r.TTL)))
	c.created(k, true)
	assert.False(t, c.hold(k, "/leasewheel/k/late", begin.Add(r.TTL)), "the owner has given up")
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return c.bytes == 0
	}, time.Minute, time.Millisecond)
}

// The server has 31 bits for the numbers of the nodes of a lock.
func TestNumbersBeginAgain(t *testing.T) {
	t.Parallel()
	const clients, rounds, last = 4, 5, 2
	s, err := New(t.Context(), []string{testzk.Shared(t).Address}, &Options{SessionTimeout: 30 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	s.numbers = last
	highest, again, ex := 0, 0, locktest.NewExclusion()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for round := range rounds {
				r := driver.Request{Key: t.Name(), Owner: fmt.Sprint("a:", i, "-", round), TTL: 15 * time.Second}
				l, err := s.Wait(t.Context(), r, func() {})
				if !assert.NoError(t, err) {
					return
				}
				l.Request = r
				ex.Enter(r.Key, l.Token)
				path := s.heldPath(leaseKey{r.Key, r.Owner})
				n, ok := parseNode(path[strings.LastIndexByte(path, '/')+1:])
				assert.True(t, ok)
				if highest = max(highest, n.number); n.number == 0 {
					again++
				}
				ex.Leave(r.Key, l.Token)
				assert.NoError(t, s.Release(t.Context(), l))
			}
		})
	}
	wg.Wait()
	assert.Empty(t, ex.Violations(), "tokens rise, and one owner at a time holds the lock")
	assert.Equal(t, clients*rounds, ex.Entered())
	assert.LessOrEqual(t, highest, last+clients)
	assert.Greater(t, again, 1)
	r := driver.Request{Key: t.Name(), Owner: "b:1", TTL: 15 * time.Second}
	for range last + 2 {
		_, err = s.Acquire(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, s.Release(t.Context(), driver.Lease{Request: r}))
	}
	_, ok := parseNode("b3du-2147483647")
	assert.False(t, ok, "the server may give it again")
}
