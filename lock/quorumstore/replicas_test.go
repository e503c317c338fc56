package quorumstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// countingStore is a store that has asked replicas.
type countingStore struct {
	driver.Store
	stats driver.ReplicaStats
}

func (s *countingStore) ReplicaStats() driver.ReplicaStats { return s.stats }

func TestTheReplicasOfAllMembersAreCounted(t *testing.T) {
	q, err := quorumstore.New(
		&countingStore{memstore.New(), driver.ReplicaStats{Enough: 1, TooFew: 2, Unanswered: 3}},
		memstore.New(),
		&countingStore{memstore.New(), driver.ReplicaStats{Enough: 10, TooFew: 20, Unanswered: 30}},
	)
	require.NoError(t, err)
	assert.Equal(t, driver.ReplicaStats{Enough: 11, TooFew: 22, Unanswered: 33}, q.ReplicaStats())
	require.NoError(t, q.Close())
}
