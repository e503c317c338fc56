package zkstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
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
	s.created(k, false)
	assert.Eventually(t, func() bool {
		all, _, err := c.nodes(t.Context(), r.Key)
		return err == nil && len(all) == 0
	}, r.TTL/2, time.Millisecond, "the node is removed long before its lease ends")
	require.Eventually(t, func() bool { return release() == driver.ErrNotHeld }, time.Minute, time.Millisecond)
}

// SetBound bounds the calls of a store.
func (s *Store) SetBound(d time.Duration) { s.bound = d }
