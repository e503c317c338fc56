package storekit

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// lanes is a store whose leases have their TTL as their lane.
type lanes struct{ yes }

func (*lanes) Lane(l driver.Lease) int { return int(l.TTL) }

func TestLeasesAreSortedByLane(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		leases := make([]driver.Lease, rng.IntN(60))
		want := make(map[time.Duration][]string)
		for i := range leases {
			lane := time.Duration(rng.IntN(1+rng.IntN(12))) - 3
			leases[i] = driver.Lease{Request: driver.Request{Key: fmt.Sprint(i), TTL: lane}}
			want[lane] = append(want[lane], leases[i].Key)
		}
		got := make(map[time.Duration][]string)
		for _, lane := range byLane(&lanes{}, leases) {
			require.NotEmpty(t, lane.leases)
			ttl := lane.leases[0].TTL
			require.NotContains(t, got, ttl)
			for _, l := range lane.leases {
				require.Equal(t, ttl, l.TTL)
				got[ttl] = append(got[ttl], l.Key)
			}
		}
		for ttl := range want {
			require.ElementsMatch(t, want[ttl], got[ttl])
		}
		require.Len(t, got, len(want))
	}
}

// gathering is a store that records its calls and blocks them until the test allows them.
type gathering struct {
	lanes
	open chan struct{}

	mu    sync.Mutex // guards bulks
	bulks [][]string
}

func (*gathering) Describe() driver.Description { return driver.Description{ReleasesAll: true} }

func (s *gathering) ReleaseAll(_ context.Context, batch []driver.Lease, out []error) error {
	keys := make([]string, len(batch))
	for i := range batch {
		keys[i], out[i] = batch[i].Key, nil
	}
	s.mu.Lock()
	s.bulks = append(s.bulks, keys)
	s.mu.Unlock()
	<-s.open
	return nil
}

func TestTheReleaserReleasesInBulkWhileItIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gathering{open: make(chan struct{})}
		r := NewReleaser(s, slog.New(slog.DiscardHandler))
		for i := range maxWorkers + 2*maxBatch + 30 {
			synctest.Wait() // or one goroutine would take what others are there for
			lane := time.Hour
			if i >= maxWorkers+2*maxBatch+10 {
				lane = time.Minute
			}
			r.Add(driver.Lease{Request: driver.Request{Key: fmt.Sprint(i), TTL: lane}})
		}
		synctest.Wait()
		close(s.open)
		synctest.Wait()
		var sizes []int
		for _, keys := range s.bulks {
			sizes = append(sizes, len(keys))
		}
		want := append(slices.Repeat([]int{1}, maxWorkers), 100, 100, 20, 10)
		assert.ElementsMatch(t, want, sizes)
		assert.Zero(t, r.Len())
		_, err := r.Close(t.Context())
		require.NoError(t, err)
	})
}
