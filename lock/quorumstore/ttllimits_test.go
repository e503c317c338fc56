package quorumstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// limitedStore is a store with limits, whose session was renewed before the Acquire.
type limitedStore struct {
	driver.Store
	limits driver.TTLLimits
	age    time.Duration
	asked  int
}

func (s *limitedStore) Describe() driver.Description { return driver.Description{TTL: s.limits} }

func (s *limitedStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	s.asked++
	l, err := s.Store.Acquire(ctx, r)
	l.Sent = time.Now().Add(-s.age)
	return l, err
}

func TestAQuorumHasTheTightestLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []driver.TTLLimits
		want    driver.TTLLimits
	}{
		{"none", make([]driver.TTLLimits, 3), driver.TTLLimits{}},
		{"one member", []driver.TTLLimits{{}, {Min: 2, Max: 9, Slack: 3, Shared: true}}, driver.TTLLimits{Min: 2, Max: 9, Slack: 3, Shared: true}},
		{"bounds", []driver.TTLLimits{{Min: 1, Max: 9}, {Min: 2, Max: 7}, {Min: 1}}, driver.TTLLimits{Min: 2, Max: 7}},
		{"equal steps", []driver.TTLLimits{{Step: 4, Slack: 1}, {Step: 4}}, driver.TTLLimits{Step: 4, Slack: 1}},
		{"other steps", []driver.TTLLimits{{Step: 4, Slack: 1}, {Step: 3}, {}}, driver.TTLLimits{Slack: 5}},
	} {
		var stores []driver.Store
		for _, limits := range c.members {
			stores = append(stores, &limitedStore{Store: memstore.New(), limits: limits})
		}
		q, err := quorumstore.New(stores...)
		require.NoError(t, err)
		assert.Equal(t, c.want, q.Describe().TTL, c.name)
		for ttl := range 20 * time.Nanosecond {
			for _, limits := range c.members {
				assert.GreaterOrEqual(t, q.Describe().TTL.Longest(ttl), limits.Longest(ttl), c.name)
			}
		}
		require.NoError(t, q.Close())
	}
}

func TestAQuorumRefusesATTLThatAMemberRefuses(t *testing.T) {
	free := &limitedStore{Store: memstore.New()}
	q, err := quorumstore.New(&limitedStore{Store: memstore.New(), limits: driver.TTLLimits{Max: 10 * time.Second}}, free, memstore.New())
	require.NoError(t, err)
	defer q.Close()
	_, err = q.Acquire(t.Context(), driver.Request{Key: "orders", Owner: "o", TTL: 11 * time.Second})
	require.ErrorIs(t, err, driver.ErrBadTTL)
	require.ErrorContains(t, err, "orders")
	assert.Zero(t, free.asked, "no member is asked")
	_, err = lock.New(q, nil)
	require.ErrorIs(t, err, lock.ErrBadTTL, "the default TTL is too long")
}

func TestALeaseOfAQuorumIsAsOldAsItsOldestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &limitedStore{Store: memstore.New(), age: 7 * time.Second}
		q, err := quorumstore.New(old, &limitedStore{Store: memstore.New(), age: 3 * time.Second})
		require.NoError(t, err)
		defer q.Close()
		l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "o", TTL: ttl})
		require.NoError(t, err)
		assert.Equal(t, 7*time.Second, time.Since(l.Sent))

		old.age = ttl
		_, err = q.Acquire(t.Context(), driver.Request{Key: "other", Owner: "o", TTL: ttl})
		require.ErrorContains(t, err, "too late", "the copy may have ended")
	})
}
