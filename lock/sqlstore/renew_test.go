package sqlstore

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestBatchesInOppositeOrderDoNotBlockEachOther renews the same leases in two orders.
func TestBatchesInOppositeOrderDoNotBlockEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		open      func(t testing.TB, params ...string) *database
		deadlocks string // the query for their number
	}{
		"PostgreSQL": {newPostgres, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"},
		"MariaDB":    {newMariaDB, "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"},
	} {
		t.Run(name, func(t *testing.T) { testBatchesInOppositeOrder(t, c.open(t).store(t, Options{}), c.deadlocks) })
	}
}

func testBatchesInOppositeOrder(t *testing.T, s *Store, deadlocks string) {
	var batch []driver.Lease
	for i := range 100 {
		batch = append(batch, acquire(t, s, request(fmt.Sprint(i))))
	}
	reversed := slices.Clone(batch)
	slices.Reverse(reversed)
	before := s.count(t, deadlocks)
	var wg sync.WaitGroup
	for _, b := range [][]driver.Lease{batch, reversed, batch, reversed} {
		wg.Go(func() {
			for range 20 {
				out := make([]renewal.Outcome, len(b))
				assert.NoError(t, s.Renew(t.Context(), b, out))
				assert.NotContains(t, out, renewal.Lost)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, before, s.count(t, deadlocks))
}
