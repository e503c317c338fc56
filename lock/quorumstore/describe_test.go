package quorumstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// describedStore is a store that says what the test wants.
type describedStore struct {
	driver.Store
	is driver.Description
}

func (s *describedStore) Describe() driver.Description { return s.is }

// The limits are those of TestAQuorumHasTheTightestLimits.
func TestAQuorumSaysWhatItsMembersSay(t *testing.T) {
	modes := driver.ModesOf
	q, err := quorumstore.New(
		&describedStore{memstore.New(), driver.Description{
			Waits: true, ReleasesAll: true, Inspects: true, Lists: true, SetsMetadata: true, Saves: true, Imports: true,
			Keeps:     modes(driver.Exclusive, driver.Members),
			Yields:    modes(driver.Exclusive),
			Unordered: modes(driver.Exclusive),
			Addresses: []string{"a:1", "a:2"},
			Replicas:  driver.ReplicaStats{Enough: 1, TooFew: 2, Unanswered: 3},
		}},
		&describedStore{memstore.New(), driver.Description{ReleasesAll: true, Lists: true, Keeps: modes(driver.Exclusive, driver.Read)}},
		&describedStore{memstore.New(), driver.Description{
			ReleasesAll: true, Inspects: true, SetsMetadata: true,
			Keeps:     modes(driver.Exclusive),
			Addresses: []string{"b:1"},
			Replicas:  driver.ReplicaStats{Enough: 10, TooFew: 20, Unanswered: 30},
		}},
	)
	require.NoError(t, err)
	want := driver.Description{
		ReleasesAll: true,

		Keeps:     modes(driver.Exclusive),
		Addresses: []string{"a:1", "a:2", "b:1"},
		Replicas:  driver.ReplicaStats{Enough: 11, TooFew: 22, Unanswered: 33},
	}
	assert.Equal(t, want, q.Describe())
	require.NoError(t, q.Close())
	assert.Equal(t, want, q.Describe())
	assert.Zero(t, testing.AllocsPerRun(100, func() { q.Describe() }), "the client asks often")
}
