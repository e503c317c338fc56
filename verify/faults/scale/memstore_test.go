package scale

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestHoldersInMemory: the cost of an operation of memstore must not grow with the number
// of holders of the key.
func TestHoldersInMemory(t *testing.T) {
	few, many := 1_000, size(16_000, 64_000)
	for mode, name := range map[driver.Mode]string{driver.Permit: "permits", driver.Read: "readers", driver.Members: "batches"} {
		t.Run(name, func(t *testing.T) {
			assertBounded(t, "1,000 operations next to "+name, func() (took, bound time.Duration) {
				return besideHolders(t, mode, many), 5*besideHolders(t, mode, few) + 2*time.Millisecond
			})
		})
	}
}

// besideHolders returns the duration of 1,000 operations next to holders of the same key.
func besideHolders(t *testing.T, mode driver.Mode, holders int) (took time.Duration) {
	const some = 1000
	ctx, store := t.Context(), memstore.New()
	acquire := func(i int) driver.Lease {
		l, err := store.Acquire(ctx, driver.Request{
			Key: "k", Owner: fmt.Sprint("owner:", i), TTL: time.Hour, Mode: mode,
			Attrs: &driver.Attrs{Limit: lock.MaxPermits, Members: membersOf(mode, i)},
		})
		assert.NoError(t, err)
		return l
	}
	for i := range holders {
		acquire(i)
	}
	began := time.Now()
	var leases []driver.Lease
	for i := range some {
		leases = append(leases, acquire(holders+i))
	}
	assert.NoError(t, store.Renew(ctx, leases, make([]renewal.Outcome, some)))
	for _, l := range leases {
		assert.NoError(t, store.Release(ctx, l))
	}
	return time.Since(began)
}

func membersOf(mode driver.Mode, i int) []string {
	if mode != driver.Members {
		return nil
	}
	return []string{fmt.Sprint("member ", i)}
}
